#include "flashbulb/thread_pool.hpp"
#include "gil.hpp"
#include "registers.hpp"

namespace flashbulb::bindings {

void register_threads(pybind11::module_& module) {
    // Fails here, at import, if FLASHBULB_THREADS is no number of threads.
    (void)threads();
    module.def("threads", &threads, "Threads that one call may use, the caller's own included.");
    // It may wait for a part of another caller.
    module.def("set_threads", &set_threads, pybind11::arg("count"),
               pybind11::call_guard<GilReleased>(),
               "Sets threads() for the whole process; 0: the available processors.");
}

}  // namespace flashbulb::bindings
