#include <pybind11/stl.h>

#include <algorithm>
#include <cstring>
#include <tuple>

#include "arrays.hpp"
#include "flashbulb/views.hpp"
#include "registers.hpp"

namespace flashbulb::bindings {

namespace {

using AddressedSegment = std::tuple<std::uintptr_t, std::size_t, std::size_t>;

VectorView view_of(const std::vector<AddressedSegment>& addressed, std::size_t dim) {
    std::vector<Segment> segments;
    segments.reserve(addressed.size());
    for (const auto& [address, first_row, count] : addressed) {
        segments.push_back({reinterpret_cast<float*>(address), first_row, count});
    }
    return VectorView(std::move(segments), dim);
}

py::array_t<float> read(const VectorView& view, const py::object& rows_object) {
    const auto rows = require_rows(rows_object, "rows", view.rows());
    std::vector<float> values(rows.size() * view.dim());
    for (std::size_t i = 0; i < rows.size(); ++i) {
        const float* source = view.row(rows[i]);
        std::copy(source, source + view.dim(), values.data() + i * view.dim());
    }
    return to_array(std::move(values),
                    {static_cast<py::ssize_t>(rows.size()), static_cast<py::ssize_t>(view.dim())});
}

void clear(const VectorView& view, const py::object& rows_object) {
    for (const std::size_t row : require_rows(rows_object, "rows", view.rows())) {
        std::fill_n(view.row(row), view.dim(), 0.0F);
    }
}

py::tuple normalize(const py::object& object) {
    const auto rows = require_array<float>(object, "rows", 2);
    const auto count = static_cast<std::size_t>(rows.shape(0));
    const auto dim = static_cast<std::size_t>(rows.shape(1));
    std::vector<float> out(count * dim);
    const float* source = rows.data();
    std::size_t good = 0;
    {
        const py::gil_scoped_release released;
        good = normalize_rows(source, count, dim, out.data());
    }
    return py::make_tuple(to_array(std::move(out), {rows.shape(0), rows.shape(1)}), good);
}

}  // namespace

void register_vectors(py::module_& module) {
    py::class_<VectorView>(module, "VectorView",
                           "Rows in storage that somebody else owns, as (address, first row, "
                           "count) segments; valid until that storage changes.")
        .def(py::init(&view_of), py::arg("segments"), py::arg("dim"))
        .def("__len__", &VectorView::rows)
        .def_property_readonly("dim", &VectorView::dim)
        .def("read", &read, py::arg("rows"), "Copies of rows, (n, dim) float32.")
        .def("clear", &clear, py::arg("rows"), "Overwrites rows with zeros.")
        .def(
            "keep",
            [](const VectorView& view, const py::object& kept) {
                keep_rows(view, require_rows(kept, "kept", view.rows()));
            },
            py::arg("kept"), "Moves the kept rows (ascending) to the front.")
        .def(
            "first_row_not_unit",
            [](const VectorView& view, double tolerance) -> std::size_t {
                for (const Segment& segment : view.segments()) {
                    const std::size_t bad =
                        first_row_not_unit(segment.data, segment.count, view.dim(), tolerance);
                    if (bad != segment.count) return segment.first_row + bad;
                }
                return view.rows();
            },
            py::arg("tolerance"), "The first row without unit norm; len(view) if all have it.");
    module.def("normalize_rows", &normalize, py::arg("rows"),
               "Rows (n, dim) float32 scaled to unit norm, and the number of the first row that "
               "is not finite or zero (n if there is none).");
    module.def(
        "inner_product",
        [](const py::object& a_object, const py::object& b_object) {
            const auto a = require_array<float>(a_object, "a", 1);
            const auto b = require_column<float>(b_object, "b", static_cast<std::size_t>(a.size()));
            return inner_product(a.data(), b.data(), static_cast<std::size_t>(a.size()));
        },
        py::arg("a"), py::arg("b"), "The one float64 definition of similarity.");
}

}  // namespace flashbulb::bindings
