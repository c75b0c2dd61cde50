#include <pybind11/stl.h>

#include <string>
#include <vector>

#include "flashbulb/simd_level.hpp"
#include "registers.hpp"

namespace flashbulb::bindings {

void register_simd(pybind11::module_& module) {
    // Fails here, at import, if FLASHBULB_SIMD_LEVEL cannot be met or FLASHBULB_AMX means nothing.
    (void)active_simd_level();
    module.def(
        "simd_level", [] { return std::string(to_string(active_simd_level())); },
        "Name of the SIMD level in use.");
    module.def(
        "supported_simd_levels",
        [] {
            std::vector<std::string> names;
            for (const SimdLevel level : supported_simd_levels()) {
                names.emplace_back(to_string(level));
            }
            return names;
        },
        "Levels that can run here, lowest first: v4_amx only where matrix tiles may be used.");
    module.def("set_simd_level", &set_simd_level, pybind11::arg("name"),
               "Switches every later call to another level (for tests and benchmarks).");
}

}  // namespace flashbulb::bindings
