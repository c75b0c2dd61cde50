#include <pybind11/stl.h>

#include <cerrno>
#include <memory>
#include <optional>
#include <string>
#include <system_error>

#include "arrays.hpp"
#include "flashbulb/snapshot.hpp"
#include "gil.hpp"
#include "registers.hpp"

namespace flashbulb::bindings {

namespace {

void write(const std::string& path, std::uint64_t generation, unsigned mode,
           const VectorView& vectors, const TraceTable& traces, const TagDictionary& tags,
           const Sketch* sketch) {
    try {
        const GilReleased released;
        write_snapshot(path, generation, mode, vectors, traces, tags, sketch);
    } catch (const std::system_error& error) {
        errno = error.code().value();
        PyErr_SetFromErrnoWithFilename(PyExc_OSError, path.c_str());
        throw py::error_already_set();
    }
}

py::tuple read(const std::string& path, std::uint64_t generation, std::size_t dim,
               const Policy& policy, std::size_t map_from) {
    std::optional<Snapshot> snapshot;
    {
        const GilReleased released;
        snapshot.emplace(read_snapshot(path, generation, dim, policy, map_from));
    }
    auto* rows = new StoredRows(std::move(snapshot->vectors));
    const py::capsule owner(rows, [](void* p) { delete static_cast<StoredRows*>(p); });
    const py::array_t<float> vectors(
        {static_cast<py::ssize_t>(rows->rows()), static_cast<py::ssize_t>(rows->dim())},
        rows->data(), owner);
    py::object sketch = py::none();  // a Sketch is moved, never copied
    if (snapshot->sketch) {
        sketch = py::cast(std::make_unique<Sketch>(std::move(*snapshot->sketch)));
    }
    return py::make_tuple(vectors, std::move(snapshot->traces), std::move(snapshot->tags), sketch);
}

}  // namespace

void register_snapshot(py::module_& module) {
    py::register_exception<SnapshotError>(module, "SnapshotError");
    module.attr("MAP_FROM_BYTES") = map_from_bytes;
    module.def("write_snapshot", &write, py::arg("path"), py::arg("generation"), py::arg("mode"),
               py::arg("vectors"), py::arg("traces"), py::arg("tags"), py::arg("sketch"),
               "Writes all live rows to a new file and waits until it is on the disk. OSError if "
               "that fails; no file is left then.");
    module.def("read_snapshot", &read, py::arg("path"), py::arg("generation"), py::arg("dim"),
               py::arg("policy"), py::arg("map_from") = map_from_bytes,
               "Vectors (n, dim) float32, traces, tags and sketch (or None) of a snapshot that is "
               "as it was written; else SnapshotError. What is written to the vectors never gets "
               "into the file.");
}

}  // namespace flashbulb::bindings
