#include <pybind11/stl.h>

#include "arrays.hpp"
#include "flashbulb/welford.hpp"
#include "gil.hpp"
#include "registers.hpp"

namespace flashbulb::bindings {

namespace {

Array<float> vector_of(const Centroid& centroid, const py::object& object) {
    return require_column<float>(object, "vector", centroid.dim());
}

Array<float> rows_of(const Centroid& centroid, const py::object& object) {
    auto rows = require_array<float>(object, "rows", 2);
    if (static_cast<std::size_t>(rows.shape(1)) != centroid.dim()) {
        throw py::value_error("rows must have " + std::to_string(centroid.dim()) +
                              " columns, got " + std::to_string(rows.shape(1)));
    }
    return rows;
}

}  // namespace

void register_welford(py::module_& module) {
    py::class_<Moments>(module, "Moments", "Welford moments of a stream of numbers.")
        .def(py::init([](std::int64_t count, double mean, double m2) {
                 return Moments{count, mean, m2};
             }),
             py::arg("count") = 0, py::arg("mean") = 0.0, py::arg("m2") = 0.0)
        .def_readonly("count", &Moments::count)
        .def_readonly("mean", &Moments::mean)
        .def_readonly("m2", &Moments::m2)
        .def_property_readonly("variance", &Moments::variance)
        .def("update", &Moments::update, py::arg("value"))
        .def("merge", &Moments::merge, py::arg("other"))
        .def("copy", [](const Moments& moments) { return moments; });

    py::class_<Centroid>(module, "Centroid", "Welford moments of every dimension of a stream.")
        .def(py::init<std::size_t>(), py::arg("dim"))
        .def(py::init([](std::int64_t count, std::vector<double> mean, std::vector<double> m2) {
                 return Centroid(count, std::move(mean), std::move(m2));
             }),
             py::arg("count"), py::arg("mean"), py::arg("m2"))
        .def_property_readonly("dim", &Centroid::dim)
        .def_property_readonly("count", &Centroid::count)
        .def_property_readonly("mean", [](const Centroid& c) { return to_array(c.mean()); })
        .def_property_readonly("m2", [](const Centroid& c) { return to_array(c.m2()); })
        .def(
            "update",
            [](Centroid& centroid, const py::object& object) {
                if (py::isinstance<Array<float>>(object) &&
                    py::reinterpret_borrow<py::array>(object).ndim() == 1) {
                    centroid.update(vector_of(centroid, object).data());
                    return;
                }
                const auto rows = rows_of(centroid, object);
                const auto count = static_cast<std::size_t>(rows.shape(0));
                const float* data = rows.data();
                const GilReleased released;
                centroid.update(data, count);
            },
            py::arg("rows"), "One vector (dim,) or several (n, dim), one after the other.")
        .def(
            "observe",
            [](Centroid& centroid, const py::object& object) {
                const auto rows = rows_of(centroid, object);
                const auto count = static_cast<std::size_t>(rows.shape(0));
                std::vector<double> distances(count);
                {
                    const float* data = rows.data();
                    const GilReleased released;
                    centroid.update(data, count, distances.data());
                }
                return to_array(std::move(distances));
            },
            py::arg("rows"), "update(rows); the distance of each row to the centroid before it.")
        .def("merge", &Centroid::merge, py::arg("other"))
        .def(
            "distance",
            [](const Centroid& centroid, const py::object& vector) {
                return centroid.distance(vector_of(centroid, vector).data());
            },
            py::arg("vector"))
        .def("copy", [](const Centroid& centroid) { return centroid; });
}

}  // namespace flashbulb::bindings
