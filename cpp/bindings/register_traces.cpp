#include <pybind11/stl.h>

#include <string>

#include "arrays.hpp"
#include "flashbulb/traces.hpp"
#include "gil.hpp"
#include "registers.hpp"

namespace flashbulb::bindings {

namespace {

std::vector<Trace> traces_of(const py::dict& columns) {
    const auto ids = require_array<std::int64_t>(columns["ids"], "ids", 1);
    const auto count = static_cast<std::size_t>(ids.size());
    const auto number = [&](const char* name) {
        return require_column<double>(columns[name], name, count);
    };
    const auto salience = number("salience");
    const auto floor = number("floor");
    const auto vividness = number("vividness");
    const auto vividness_time = number("vividness_time");
    const auto created = number("created");
    const auto last_access = number("last_access");
    const auto last_strength_change = number("last_strength_change");
    const auto urgency = number("urgency");
    const auto access_count =
        require_column<std::int64_t>(columns["access_count"], "access_count", count);
    const auto status = require_column<std::uint8_t>(columns["status"], "status", count);
    const auto pinned = require_column<bool>(columns["pinned"], "pinned", count);
    std::vector<Trace> traces(count);
    for (std::size_t i = 0; i < count; ++i) {
        const auto at = static_cast<py::ssize_t>(i);
        if (status.at(at) > 2) {
            throw py::value_error("status must be 0, 1 or 2, got " + std::to_string(status.at(at)));
        }
        traces[i] = Trace{
            .id = ids.at(at),
            .salience = salience.at(at),
            .floor = floor.at(at),
            .vividness = vividness.at(at),
            .vividness_time = vividness_time.at(at),
            .created = created.at(at),
            .last_access = last_access.at(at),
            .last_strength_change = last_strength_change.at(at),
            .urgency = urgency.at(at),
            .access_count = access_count.at(at),
            .status = static_cast<TaskStatus>(status.at(at)),
            .pinned = pinned.at(at),
        };
    }
    return traces;
}

void append(TraceTable& table, const py::dict& columns, std::vector<std::vector<TagId>> tags) {
    table.append(traces_of(columns), tags);
}

void replace(TraceTable& table, const py::object& rows, const py::dict& columns) {
    table.replace(require_rows(rows, "rows", table.rows()), traces_of(columns));
}

py::dict export_columns(const TraceTable& table, const py::object& rows_object) {
    const auto rows = require_rows(rows_object, "rows", table.rows());
    const auto column = [&](auto member) {
        using Value = std::remove_cvref_t<decltype(std::declval<Trace>().*member)>;
        std::vector<Value> values;
        values.reserve(rows.size());
        for (const std::size_t row : rows) values.push_back(table.trace(row).*member);
        return to_array(std::move(values));
    };
    py::dict columns;
    columns["ids"] = column(&Trace::id);
    columns["salience"] = column(&Trace::salience);
    columns["floor"] = column(&Trace::floor);
    columns["vividness"] = column(&Trace::vividness);
    columns["vividness_time"] = column(&Trace::vividness_time);
    columns["created"] = column(&Trace::created);
    columns["last_access"] = column(&Trace::last_access);
    columns["last_strength_change"] = column(&Trace::last_strength_change);
    columns["urgency"] = column(&Trace::urgency);
    columns["access_count"] = column(&Trace::access_count);
    py::array_t<std::uint8_t> status(static_cast<py::ssize_t>(rows.size()));
    py::array_t<bool> pinned(static_cast<py::ssize_t>(rows.size()));
    for (std::size_t i = 0; i < rows.size(); ++i) {
        const Trace trace = table.trace(rows[i]);
        status.mutable_at(static_cast<py::ssize_t>(i)) = static_cast<std::uint8_t>(trace.status);
        pinned.mutable_at(static_cast<py::ssize_t>(i)) = trace.pinned;
    }
    columns["status"] = status;
    columns["pinned"] = pinned;
    return columns;
}

py::array_t<std::int64_t> find(const TraceTable& table, const py::object& ids_object) {
    const auto ids = require_array<std::int64_t>(ids_object, "ids", 1);
    std::vector<std::int64_t> rows;
    rows.reserve(static_cast<std::size_t>(ids.size()));
    for (const std::int64_t id : as_span(ids)) {
        const auto row = table.find(id);
        rows.push_back(row ? static_cast<std::int64_t>(*row) : -1);
    }
    return to_array(std::move(rows));
}

template <class Action>
auto for_rows(Action action) {
    return [action](TraceTable& table, const py::object& rows_object) {
        for (const std::size_t row : require_rows(rows_object, "rows", table.rows())) {
            action(table, row);
        }
    };
}

template <class Action>
auto for_rows_at(Action action) {
    return [action](TraceTable& table, const py::object& rows_object, double now) {
        for (const std::size_t row : require_rows(rows_object, "rows", table.rows())) {
            action(table, row, now);
        }
    };
}

py::array_t<double> vividness(const TraceTable& table, const py::object& rows_object, double now,
                              bool effective) {
    const auto rows = require_rows(rows_object, "rows", table.rows());
    std::vector<double> values;
    values.reserve(rows.size());
    for (const std::size_t row : rows) values.push_back(table.vividness(row, now, effective));
    return to_array(std::move(values));
}

void all_bonuses(const TraceTable& table, double now, double vividness_weight,
                 double recency_weight, const py::object& vividness_object,
                 const py::object& recency_object) {
    auto vividness = require_column<double>(vividness_object, "vividness", table.rows());
    auto recency = require_column<double>(recency_object, "recency", table.rows());
    const std::span<double> vividness_out(vividness.mutable_data(), table.rows());
    const std::span<double> recency_out(recency.mutable_data(), table.rows());
    const GilReleased released;
    table.all_bonuses(now, vividness_weight, recency_weight, vividness_out, recency_out);
}

std::vector<std::vector<TagId>> tags_of(const TraceTable& table, const py::object& rows_object) {
    std::vector<std::vector<TagId>> result;
    for (const std::size_t row : require_rows(rows_object, "rows", table.rows())) {
        const auto tags = table.tags(row);
        result.emplace_back(tags.begin(), tags.end());
    }
    return result;
}

}  // namespace

void register_traces(py::module_& module) {
    py::class_<TagDictionary>(module, "TagDictionary", "Interned tag names.")
        .def(py::init<>())
        .def("__len__", &TagDictionary::size)
        .def("intern", &TagDictionary::intern, py::arg("name"))
        .def("find", &TagDictionary::find, py::arg("name"))
        .def("name", &TagDictionary::name, py::arg("tag"));

    py::class_<TraceTable>(module, "TraceTable", "The traces of all rows, as columns.")
        .def(py::init<const Policy&>(), py::arg("policy"))
        .def("__len__", &TraceTable::rows)
        .def_property_readonly("live", &TraceTable::live)
        .def_property_readonly("memory_bytes", &TraceTable::memory_bytes)
        .def_property("next_id", &TraceTable::next_id, &TraceTable::set_next_id)
        .def("append", &append, py::arg("columns"), py::arg("tags"))
        .def("replace", &replace, py::arg("rows"), py::arg("columns"),
             "Gives rows other traces, of the same ids and creation.")
        .def("export", &export_columns, py::arg("rows"))
        .def("find", &find, py::arg("ids"), "Rows of live ids; -1 for unknown ones.")
        .def("live_rows", [](const TraceTable& table) { return rows_to_array(table.live_rows()); })
        .def("tags", &tags_of, py::arg("rows"))
        .def("vividness", &vividness, py::arg("rows"), py::arg("now"), py::arg("effective"))
        .def(
            "all_vividness",
            [](const TraceTable& table, double now) {
                std::vector<double> values;
                {
                    const GilReleased released;
                    values = table.all_vividness(now);
                }
                return to_array(std::move(values));
            },
            py::arg("now"))
        .def("all_bonuses", &all_bonuses, py::arg("now"), py::arg("vividness_weight"),
             py::arg("recency_weight"), py::arg("vividness"), py::arg("recency"),
             "Writes what vividness and recency add to every row's score, before any ramp.")
        .def(
            "strengthen",
            [](TraceTable& table, const py::object& rows, double gain, double now) {
                for_rows_at([gain](TraceTable& t, std::size_t row, double at) {
                    t.strengthen(row, gain, at);
                })(table, rows, now);
            },
            py::arg("rows"), py::arg("gain"), py::arg("now"))
        .def("touch",
             for_rows_at([](TraceTable& t, std::size_t row, double now) { t.touch(row, now); }),
             py::arg("rows"), py::arg("now"))
        .def("complete",
             for_rows_at([](TraceTable& t, std::size_t row, double now) { t.complete(row, now); }),
             py::arg("rows"), py::arg("now"))
        .def("pin",
             for_rows_at([](TraceTable& t, std::size_t row, double now) { t.pin(row, now); }),
             py::arg("rows"), py::arg("now"))
        .def("unpin",
             for_rows_at([](TraceTable& t, std::size_t row, double now) { t.unpin(row, now); }),
             py::arg("rows"), py::arg("now"))
        .def("remove", for_rows([](TraceTable& t, std::size_t row) { t.remove(row); }),
             py::arg("rows"))
        .def("materialize_decay", &TraceTable::materialize_decay, py::arg("now"),
             py::call_guard<GilReleased>())
        .def("set_policy", &TraceTable::set_policy, py::arg("policy"))
        .def("compact", [](TraceTable& table) { return rows_to_array(table.compact()); })
        .def(
            "rows_with_tags",
            [](const TraceTable& table, const std::vector<TagId>& wanted) {
                return rows_to_array(table.rows_with_tags(wanted));
            },
            py::arg("tags"))
        .def(
            "newest_with_tags",
            [](const TraceTable& table, const std::vector<TagId>& wanted) {
                return table.newest_with_tags(wanted);
            },
            py::arg("tags"));
}

}  // namespace flashbulb::bindings
