#include <pybind11/stl.h>

#include <optional>
#include <string>

#include "arrays.hpp"
#include "flashbulb/approximate.hpp"
#include "flashbulb/search.hpp"
#include "flashbulb/suppression.hpp"
#include "gil.hpp"
#include "registers.hpp"

namespace flashbulb::bindings {

namespace {

std::optional<TaskStatus> status_of(const std::optional<int>& status) {
    if (!status) return std::nullopt;
    if (*status < 0 || *status > 2) {
        throw py::value_error("status must be 0, 1 or 2, got " + std::to_string(*status));
    }
    return static_cast<TaskStatus>(*status);
}

SearchPath path_of(const std::string& name) {
    if (name == "auto") return SearchPath::automatic;
    if (name == "int8") return SearchPath::int8;
    if (name == "int4") return SearchPath::int4;
    throw py::value_error("path must be 'auto', 'int8' or 'int4', got '" + name + "'");
}

std::vector<std::size_t> rows_of(const py::object& object, const char* name, std::size_t limit) {
    return object.is_none() ? std::vector<std::size_t>{} : require_rows(object, name, limit);
}

py::tuple search_rows(const py::object& queries_object,
                      const std::vector<std::pair<py::object, py::object>>& addends,
                      const VectorView& view, const TraceTable& traces, std::size_t k, double now,
                      double similarity_weight, double vividness_weight, double recency_weight,
                      const std::vector<TagId>& tags, bool unknown_tag, double since, double until,
                      const py::object& time_exempt, const std::optional<int>& status,
                      const py::object& allowed, const Sketch* sketch, const std::string& path,
                      const Partition* partition, std::size_t least_lists, std::size_t wanted_rows,
                      const py::object& candidates_object, std::size_t least_candidates,
                      std::optional<double> vividness_ramp_start,
                      std::optional<double> vividness_ramp_end) {
    const auto queries = require_array<float>(queries_object, "queries", 2);
    if (static_cast<std::size_t>(queries.shape(1)) != view.dim()) {
        throw py::value_error("queries must have " + std::to_string(view.dim()) + " columns, got " +
                              std::to_string(queries.shape(1)));
    }
    SearchRequest request;
    request.queries = queries.data();
    request.sketch = sketch;
    request.path = path_of(path);
    request.query_count = static_cast<std::size_t>(queries.shape(0));
    request.k = k;
    request.now = now;
    request.similarity_weight = similarity_weight;
    request.vividness_weight = vividness_weight;
    request.recency_weight = recency_weight;
    request.vividness_ramp_start = vividness_ramp_start;
    request.vividness_ramp_end = vividness_ramp_end;
    request.filter.tags = tags;
    request.filter.unknown_tag = unknown_tag;
    request.filter.since = since;
    request.filter.until = until;
    request.filter.time_exempt = rows_of(time_exempt, "time_exempt", view.rows());
    request.filter.status = status_of(status);
    if (!allowed.is_none()) request.filter.allowed = rows_of(allowed, "allowed", view.rows());
    for (const auto& [rows, values_object] : addends) {
        const auto values = require_array<double>(values_object, "addend values", 1);
        const auto span = as_span(values);
        request.addends.push_back(
            {rows_of(rows, "addend rows", view.rows()), {span.begin(), span.end()}});
    }
    const std::vector<std::size_t> candidates =
        rows_of(candidates_object, "candidates", view.rows());
    const bool nearby = partition != nullptr || !candidates_object.is_none();
    SearchResult result;
    {
        const GilReleased released;
        result = nearby ? search_nearby(
                              view, traces, request,
                              {partition, least_lists, wanted_rows, candidates, least_candidates})
                        : search(view, traces, request);
    }
    const std::vector<py::ssize_t> shape = {queries.shape(0), static_cast<py::ssize_t>(result.k)};
    return py::make_tuple(
        to_array(std::move(result.ids), shape), to_array(std::move(result.scores), shape),
        to_array(std::move(result.similarities), shape), to_array(std::move(result.cosines), shape),
        to_array(std::move(result.vividness_bonus), shape),
        to_array(std::move(result.recency_bonus), shape));
}

py::array_t<std::int64_t> suppress_rows(const VectorView& view, TraceTable& traces,
                                        const py::object& accessed_object,
                                        const py::object& related_object, double now,
                                        const Sketch* sketch) {
    const auto accessed = require_rows(accessed_object, "accessed", view.rows());
    const auto related = rows_of(related_object, "related", view.rows());
    std::optional<std::span<const std::size_t>> given;
    if (!related_object.is_none()) given = related;
    std::vector<std::size_t> moved;
    {
        const GilReleased released;
        moved = suppress(view, traces, accessed, given, now, sketch);
    }
    return rows_to_array(moved);
}

}  // namespace

void register_search(py::module_& module) {
    py::class_<Sketch>(module, "Sketch", "Quantised copies of rows, scanned in their place.")
        .def(py::init<std::size_t>(), py::arg("dim"))
        .def("__len__", &Sketch::rows)
        .def_property_readonly("row_bytes", &Sketch::row_bytes)
        .def_readonly_static("largest_dim", &Sketch::largest_dim)
        .def("extend", &Sketch::extend, py::arg("view"), py::call_guard<GilReleased>())
        .def(
            "update",
            [](Sketch& sketch, const VectorView& view, const py::object& rows) {
                for (const std::size_t row : require_rows(rows, "rows", sketch.rows())) {
                    sketch.update(view, row);
                }
            },
            py::arg("view"), py::arg("rows"), "Codes rows anew, after they changed.")
        .def("truncate", &Sketch::truncate, py::arg("count"));
    // By position: pybind11 makes a string of each name to look a keyword up, which takes
    // microseconds that count where few rows are searched.
    module.def("search", &search_rows, py::arg("queries"), py::arg("addends"), py::arg("view"),
               py::arg("traces"), py::arg("k"), py::arg("now"), py::arg("similarity_weight"),
               py::arg("vividness_weight"), py::arg("recency_weight"), py::arg("tags"),
               py::arg("unknown_tag"), py::arg("since"), py::arg("until"), py::arg("time_exempt"),
               py::arg("status"), py::arg("allowed"), py::arg("sketch") = nullptr,
               py::arg("path") = "auto", py::kw_only(), py::arg("partition") = nullptr,
               py::arg("least_lists") = 1, py::arg("wanted_rows") = 0,
               py::arg("candidates") = py::none(), py::arg("least_candidates") = 1,
               py::arg("vividness_ramp_start") = std::nullopt,
               py::arg("vividness_ramp_end") = std::nullopt,
               "Fused top-k, exact unless a partition or candidates say where to look: (ids, "
               "scores, similarities, cosines, vividness bonus, recency "
               "bonus), each (queries, k).");
    module.def(
        "vivid_rows",
        [](const TraceTable& traces, double now, double vividness_weight, double recency_weight) {
            return rows_to_array(vivid_rows(traces, now, vividness_weight, recency_weight));
        },
        py::arg("traces"), py::arg("now"), py::arg("vividness_weight"), py::arg("recency_weight"),
        "Rows that every approximate search looks at for their bonus.");
    module.def(
        "resolve_path",
        [](const std::string& path, std::size_t rows) {
            return resolve(path_of(path), rows) == SearchPath::int4 ? "int4" : "int8";
        },
        py::arg("path"), py::arg("rows"), "What a search of this many sketched rows reads first.");
    module.def("suppress", &suppress_rows, py::arg("view"), py::arg("traces"), py::arg("accessed"),
               py::arg("related"), py::arg("now"), py::arg("sketch") = nullptr,
               "Retrieval-induced forgetting; rows whose strength moved.");
}

}  // namespace flashbulb::bindings
