#pragma once

// The only checks of dtype and shape between NumPy and the core. Python's Engine converts what
// users pass; what arrives here must already be right, and a mistake says what was expected.

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace flashbulb::bindings {

namespace py = pybind11;

template <class T>
using Array = py::array_t<T, py::array::c_style>;

/// Checks that `object` is a C-contiguous array of exactly dtype T with `dimensions` dimensions.
template <class T>
Array<T> require_array(const py::object& object, const char* name, py::ssize_t dimensions) {
    if (!py::isinstance<Array<T>>(object)) {
        throw py::type_error(std::string(name) + " must be a C-contiguous array of " +
                             std::string(py::str(py::dtype::of<T>())) + ", got " +
                             std::string(py::str(py::type::of(object))));
    }
    auto array = py::reinterpret_borrow<Array<T>>(object);
    if (array.ndim() != dimensions) {
        throw py::value_error(std::string(name) + " must have " + std::to_string(dimensions) +
                              " dimensions, got " + std::to_string(array.ndim()));
    }
    return array;
}

template <class T>
std::span<const T> as_span(const Array<T>& array) {
    return {array.data(), static_cast<std::size_t>(array.size())};
}

/// A column of `size` values.
template <class T>
Array<T> require_column(const py::object& object, const char* name, std::size_t size) {
    auto array = require_array<T>(object, name, 1);
    if (static_cast<std::size_t>(array.size()) != size) {
        throw py::value_error(std::string(name) + " must have " + std::to_string(size) +
                              " values, got " + std::to_string(array.size()));
    }
    return array;
}

/// Row numbers below `limit`.
inline std::vector<std::size_t> require_rows(const py::object& object, const char* name,
                                             std::size_t limit) {
    const auto array = require_array<std::int64_t>(object, name, 1);
    std::vector<std::size_t> rows;
    rows.reserve(static_cast<std::size_t>(array.size()));
    for (const std::int64_t row : as_span(array)) {
        if (row < 0 || static_cast<std::size_t>(row) >= limit) {
            throw py::index_error(std::string(name) + " must be rows below " +
                                  std::to_string(limit) + ", got " + std::to_string(row));
        }
        rows.push_back(static_cast<std::size_t>(row));
    }
    return rows;
}

/// Hands a vector over to NumPy: without a copy, unless it is so small that a copy takes less time.
template <class T>
py::array_t<T> to_array(std::vector<T> values, std::vector<py::ssize_t> shape = {}) {
    constexpr std::size_t small = 512;
    if (values.size() <= small) {
        if (shape.empty()) shape = {static_cast<py::ssize_t>(values.size())};
        py::array_t<T> array(std::move(shape));
        std::copy(values.begin(), values.end(), array.mutable_data());
        return array;
    }
    auto* owned = new std::vector<T>(std::move(values));
    const py::capsule owner(owned, [](void* p) { delete static_cast<std::vector<T>*>(p); });
    if (shape.empty()) shape = {static_cast<py::ssize_t>(owned->size())};
    return py::array_t<T>(std::move(shape), owned->data(), owner);
}

inline py::array_t<std::int64_t> rows_to_array(const std::vector<std::size_t>& rows) {
    return to_array(std::vector<std::int64_t>(rows.begin(), rows.end()));
}

}  // namespace flashbulb::bindings
