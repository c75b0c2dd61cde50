#include <pybind11/pybind11.h>

#include "flashbulb/rw_lock.hpp"
#include "gil.hpp"
#include "registers.hpp"

namespace flashbulb::bindings {

namespace py = pybind11;

namespace {

// `with lock.shared():` and `with lock.exclusive():`. The interpreter lock is given up while
// waiting, since whoever holds this lock may need it to go on; Ctrl-C ends the wait.
struct SharedGuard {
    RwLock* lock;
    [[nodiscard]] bool enter(const RwLock::Stop& stop) const { return lock->lock_shared(stop); }
    void exit() const { lock->unlock_shared(); }
};

struct ExclusiveGuard {
    RwLock* lock;
    [[nodiscard]] bool enter(const RwLock::Stop& stop) const { return lock->lock(stop); }
    void exit() const { lock->unlock(); }
};

template <class Guard>
void enter(const Guard& guard) {
    bool inside = false;
    {
        GilReleased released;
        inside = guard.enter([&released] { return released.interrupted(); });
    }
    if (!inside) throw py::error_already_set();
}

template <class Guard>
void register_guard(py::module_& module, const char* name) {
    py::class_<Guard>(module, name)
        .def("__enter__", &enter<Guard>)
        .def("__exit__", [](const Guard& guard, const py::args&) { guard.exit(); });
}

}  // namespace

void register_rw_lock(py::module_& module) {
    register_guard<SharedGuard>(module, "SharedGuard");
    register_guard<ExclusiveGuard>(module, "ExclusiveGuard");
    py::class_<RwLock>(module, "RwLock", "Many readers or one writer, fair to both; not recursive.")
        .def(py::init<>())
        .def(
            "shared", [](RwLock& lock) { return SharedGuard{&lock}; }, py::keep_alive<0, 1>())
        .def(
            "exclusive", [](RwLock& lock) { return ExclusiveGuard{&lock}; },
            py::keep_alive<0, 1>());
}

}  // namespace flashbulb::bindings
