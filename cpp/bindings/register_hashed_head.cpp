#include <pybind11/stl.h>

#include <string_view>
#include <vector>

#include "arrays.hpp"
#include "flashbulb/hashed_head.hpp"
#include "registers.hpp"

namespace flashbulb::bindings {

namespace {

HashedHead make(const py::object& weights_object, std::vector<std::string> classes,
                const HashedHead::GroupWeights& groups) {
    const auto weights = require_array<float>(weights_object, "weights", 2);
    if (weights.shape(1) != 2) {
        throw py::value_error("weights must have 2 columns, got " +
                              std::to_string(weights.shape(1)));
    }
    const auto values = as_span(weights);
    return {{values.begin(), values.end()}, std::move(classes), groups};
}

// What these show lives as long as the list.
template <class Item>
std::vector<std::string_view> views(const py::handle& object, const char* name) {
    if (!py::isinstance<py::list>(object)) {
        throw py::type_error(std::string(name) + " must be a list, got " +
                             std::string(py::str(py::type::of(object))));
    }
    const auto list = py::reinterpret_borrow<py::list>(object);
    std::vector<std::string_view> result;
    result.reserve(list.size());
    for (const py::handle item : list) {
        if (!py::isinstance<Item>(item)) {
            throw py::type_error(std::string(name) + " must not hold " +
                                 std::string(py::str(py::type::of(item))));
        }
        result.push_back(py::cast<std::string_view>(item));
    }
    return result;
}

py::tuple log_odds(const HashedHead& head, const py::list& words, const py::list& sentences) {
    std::vector<std::vector<std::string_view>> sets;
    sets.reserve(sentences.size());
    for (const py::handle sentence : sentences) {
        sets.push_back(views<py::bytes>(sentence, "a sentence"));
        for (const std::string_view set : sets.back()) {
            if (set.size() != head.set_bytes()) {
                throw py::value_error("a set of classes must have " +
                                      std::to_string(head.set_bytes()) + " bytes, got " +
                                      std::to_string(set.size()));
            }
        }
    }
    const auto [first, second] = head.log_odds(views<py::str>(words, "words"), sets);
    return py::make_tuple(first, second);
}

}  // namespace

void register_hashed_head(py::module_& module) {
    py::class_<HashedHead>(module, "HashedHead",
                           "Two linear models over hashed features of a text's words.")
        .def(py::init(&make), py::arg("weights"), py::arg("classes"), py::arg("groups"))
        .def_property_readonly("set_bytes", &HashedHead::set_bytes)
        .def("log_odds", &log_odds, py::arg("words"), py::arg("sentences"));
}

}  // namespace flashbulb::bindings
