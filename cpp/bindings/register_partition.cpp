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

py::tuple entries(const Partition& partition) {
    std::vector<std::uint32_t> lists;
    std::vector<std::uint32_t> rows;
    for (std::size_t list = 0; list < partition.lists(); ++list) {
        const auto members = partition.members(list);
        lists.insert(lists.end(), members.size(), static_cast<std::uint32_t>(list));
        rows.insert(rows.end(), members.begin(), members.end());
    }
    return py::make_tuple(to_array(std::move(lists)), to_array(std::move(rows)));
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
                const auto array = require_array<std::uint32_t>(lists, "lists", 2);
                partition.append(as_span(array), static_cast<std::size_t>(array.shape(1)));
            },
            py::arg("lists"), "Puts the next rows into these lists, (rows, lists of a row).")
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
        .def("entries", &entries, "All lists and their rows, one pair after the other.")
        .def("sizes", &sizes, "Rows of each list.")
        .def("ranking", &ranking, py::arg("query"), "All lists, the nearest first.");
}

}  // namespace flashbulb::bindings
