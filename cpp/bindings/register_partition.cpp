#include <limits>
#include <vector>

#include "arrays.hpp"
#include "flashbulb/partition.hpp"
#include "gil.hpp"
#include "registers.hpp"

namespace flashbulb::bindings {

namespace {

Partition make(const py::object& centroids_object, bool l2) {
    const auto centroids = require_array<float>(centroids_object, "centroids", 2);
    const auto values = as_span(centroids);
    return {{values.begin(), values.end()},
            static_cast<std::size_t>(centroids.shape(1)),
            l2 ? Partition::Metric::l2 : Partition::Metric::inner_product};
}

py::array_t<std::uint32_t> lists_of_rows(const Partition& partition) {
    std::vector<std::uint32_t> lists(partition.rows());
    for (std::size_t list = 0; list < partition.lists(); ++list) {
        for (const std::uint32_t row : partition.members(list)) {
            lists[row] = static_cast<std::uint32_t>(list);
        }
    }
    return to_array(std::move(lists));
}

py::array_t<std::int64_t> sizes(const Partition& partition) {
    std::vector<std::int64_t> result;
    for (std::size_t list = 0; list < partition.lists(); ++list) {
        result.push_back(static_cast<std::int64_t>(partition.members(list).size()));
    }
    return to_array(std::move(result));
}

py::array_t<std::uint32_t> ranking(const Partition& partition, const py::object& query_object) {
    const auto query = require_column<float>(query_object, "query", partition.dim());
    return to_array(partition.nearest(query.data(), partition.lists(), 0));
}

}  // namespace

void register_partition(py::module_& module) {
    py::class_<Partition>(module, "Partition", "The rows of a store in lists around centroids.")
        .def(py::init(&make), py::arg("centroids"), py::arg("l2") = false)
        .def("__len__", &Partition::rows)
        .def_property_readonly("dim", &Partition::dim)
        .def_property_readonly("lists", &Partition::lists)
        .def_property_readonly("centroids",
                               [](const Partition& partition) {
                                   return to_array(partition.centroids(),
                                                   {static_cast<py::ssize_t>(partition.lists()),
                                                    static_cast<py::ssize_t>(partition.dim())});
                               })
        .def_property_readonly("memory_bytes", &Partition::memory_bytes)
        .def(
            "append",
            [](Partition& partition, const py::object& lists) {
                partition.append(as_span(require_array<std::uint32_t>(lists, "lists", 1)));
            },
            py::arg("lists"), "Puts the next rows into these lists.")
        .def("truncate", &Partition::truncate, py::arg("count"))
        .def(
            "keep",
            [](Partition& partition, const py::object& kept) {
                const auto rows =
                    require_rows(kept, "kept", std::numeric_limits<std::size_t>::max());
                const GilReleased released;
                partition.keep(rows);
            },
            py::arg("kept"))
        .def("lists_of_rows", &lists_of_rows, "The list of each row.")
        .def("sizes", &sizes, "Rows of each list.")
        .def("ranking", &ranking, py::arg("query"), "All lists, the nearest first.");
}

}  // namespace flashbulb::bindings
