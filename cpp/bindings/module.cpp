#include "registers.hpp"

PYBIND11_MODULE(_core, module) {
    using namespace flashbulb::bindings;
    module.doc() = "The native core of Flashbulb. Use flashbulb.Engine and flashbulb.Memory.";
    register_simd(module);
    register_threads(module);
    register_policy(module);
    register_rw_lock(module);
    register_vectors(module);
    register_traces(module);
    register_partition(module);
    register_search(module);
    register_snapshot(module);
    register_welford(module);
    register_hashed_head(module);
}
