#pragma once

#include <Python.h>
#include <unistd.h>

#include <cxxabi.h>

namespace flashbulb::bindings {

/// Gives up the interpreter lock for its scope; also a pybind11::call_guard.
///
/// In place of pybind11's, which ends the process with std::terminate when a daemon thread is in
/// native code while the interpreter exits: before version 3.14 Python ends such a thread where it
/// asks for the lock, by unwinding its stack, which C++ does not let pass a destructor. Here the
/// thread sleeps until the process is gone, as in 3.14.
class GilReleased {
public:
    GilReleased() : state_(PyEval_SaveThread()) {}
    ~GilReleased() { take_back(); }
    GilReleased(const GilReleased&) = delete;
    GilReleased& operator=(const GilReleased&) = delete;

    /// Lets Python handle signals. @return whether a handler raised: its exception is set.
    bool interrupted() {
        take_back();
        const bool raised = PyErr_CheckSignals() != 0;
        state_ = PyEval_SaveThread();
        return raised;
    }

private:
    void take_back() noexcept {
        try {
            PyEval_RestoreThread(state_);
        } catch (const abi::__forced_unwind&) {
            while (true) pause();
        }
    }

    PyThreadState* state_;
};

}  // namespace flashbulb::bindings
