#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <tuple>

#include "arrays.hpp"
#include "flashbulb/views.hpp"
#include "gil.hpp"
#include "registers.hpp"

namespace flashbulb::bindings {

namespace {

RowFormat format_of(std::size_t dim, const std::string& encoding, const py::object& minimum,
                    const py::object& range) {
    RowFormat format{dim};
    if (encoding == "float16") {
        format.encoding = Encoding::float16;
    } else if (encoding == "uint8") {
        format.encoding = Encoding::uint8;
    } else if (encoding != "float32") {
        throw py::value_error("encoding must be 'float32', 'float16' or 'uint8', got '" + encoding +
                              "'");
    }
    if (format.encoding == Encoding::uint8) {
        const auto low = require_column<float>(minimum, "minimum", dim);
        const auto width = require_column<float>(range, "range", dim);
        format.minimum.assign(low.data(), low.data() + dim);
        format.range.assign(width.data(), width.data() + dim);
    }
    return format;
}

using AddressedSegment = std::tuple<std::uintptr_t, std::size_t, std::size_t>;

VectorView view_of(const std::vector<AddressedSegment>& addressed, RowFormat format) {
    std::vector<Segment> segments;
    segments.reserve(addressed.size());
    for (const auto& [address, first_row, count] : addressed) {
        segments.push_back({reinterpret_cast<void*>(address), first_row, count});
    }
    return VectorView(std::move(segments), std::move(format));
}

using AddressedList = std::tuple<std::uintptr_t, std::size_t, std::uintptr_t>;

VectorView scattered_view_of(const std::vector<AddressedList>& addressed,
                             const Array<std::int64_t>& places, RowFormat format) {
    std::vector<RowList> lists;
    lists.reserve(addressed.size());
    for (const auto& [address, count, offset] : addressed) {
        lists.push_back(
            {reinterpret_cast<void*>(address), count, reinterpret_cast<const float*>(offset)});
    }
    const auto* first = reinterpret_cast<const std::uint64_t*>(places.data());
    return VectorView(std::move(lists), {first, static_cast<std::size_t>(places.size())},
                      std::move(format));
}

py::array_t<float> read(const VectorView& view, const py::object& rows_object) {
    const auto rows = require_rows(rows_object, "rows", view.rows());
    std::vector<float> values(rows.size() * view.dim());
    for (std::size_t i = 0; i < rows.size(); ++i) {
        float* target = values.data() + i * view.dim();
        const float* source = view.fetch(rows[i], target);
        if (source != target) std::copy(source, source + view.dim(), target);
    }
    return to_array(std::move(values),
                    {static_cast<py::ssize_t>(rows.size()), static_cast<py::ssize_t>(view.dim())});
}

void clear(const VectorView& view, const py::object& rows_object) {
    for (const std::size_t row : require_rows(rows_object, "rows", view.rows())) {
        view.clear(row);
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
        const GilReleased released;
        good = normalize_rows(source, count, dim, out.data());
    }
    return py::make_tuple(to_array(std::move(out), {rows.shape(0), rows.shape(1)}), good);
}

}  // namespace

void register_vectors(py::module_& module) {
    py::class_<RowFormat>(module, "RowFormat", "How rows are stored.")
        .def(py::init(&format_of), py::arg("dim"), py::arg("encoding") = "float32",
             py::arg("minimum") = py::none(), py::arg("range") = py::none(),
             "encoding: 'float32', 'float16', or 'uint8' with the minimum and range of each "
             "dimension, (dim,) float32.")
        .def_readonly("dim", &RowFormat::dim)
        .def_property_readonly("encoding",
                               [](const RowFormat& format) {
                                   return std::array{"float32", "float16", "uint8"}.at(
                                       static_cast<std::size_t>(format.encoding));
                               })
        .def_property_readonly("row_bytes", &RowFormat::row_bytes)
        .def_property_readonly(
            "norm_tolerance",
            [](const RowFormat& format) { return norm_tolerance(format.encoding); },
            "How far the norm of a decoded row may be from 1.");
    py::class_<VectorView>(module, "VectorView",
                           "Rows in storage that somebody else owns; valid until that storage "
                           "changes.")
        .def(py::init(&view_of), py::arg("segments"), py::arg("format"),
             "Consecutive segments (address, first row, count).")
        .def_static("scattered", &scattered_view_of, py::arg("lists"),
                    py::arg("places").noconvert(), py::arg("format"), py::keep_alive<0, 2>(),
                    "Row r is the one at places[r] = list << 32 | offset; lists are (address, "
                    "count, address of a float32 row to add or 0); places: (n,) int64, not copied.")
        .def("__len__", &VectorView::rows)
        .def_property_readonly("dim", &VectorView::dim)
        .def_property_readonly("direct", &VectorView::direct)
        .def_property_readonly("format", &VectorView::format)
        .def("read", &read, py::arg("rows"), "Copies of decoded rows, (n, dim) float32.")
        .def("clear", &clear, py::arg("rows"), "Overwrites what is stored of rows with zeros.")
        .def(
            "keep",
            [](const VectorView& view, const py::object& kept) {
                view.keep(require_rows(kept, "kept", view.rows()));
            },
            py::arg("kept"), "Moves the kept rows (ascending) to the front.")
        .def(
            "first_row_not_unit",
            [](const VectorView& view) {
                const GilReleased released;
                return first_row_not_unit(view, norm_tolerance(view.format().encoding));
            },
            "The first row whose norm is not 1 within the tolerance of the format; len(view) if "
            "all have it.");
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
