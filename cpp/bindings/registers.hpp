#pragma once

#include <pybind11/pybind11.h>

namespace flashbulb::bindings {

void register_simd(pybind11::module_& module);
void register_threads(pybind11::module_& module);
void register_policy(pybind11::module_& module);
void register_rw_lock(pybind11::module_& module);
void register_vectors(pybind11::module_& module);
void register_traces(pybind11::module_& module);
void register_partition(pybind11::module_& module);
void register_search(pybind11::module_& module);
void register_snapshot(pybind11::module_& module);
void register_welford(pybind11::module_& module);
void register_hashed_head(pybind11::module_& module);

}  // namespace flashbulb::bindings
