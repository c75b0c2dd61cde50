#include <pybind11/pybind11.h>

#include <string>

#include "flashbulb/policy.hpp"
#include "registers.hpp"

namespace flashbulb::bindings {

namespace py = pybind11;

namespace {

// Calls visit(name, member) for every field but decay_law.
template <class Visit>
void for_each_field(Visit&& visit) {
    visit("decay_rate_per_day", &Policy::decay_rate_per_day);
    visit("decay_salience_damping", &Policy::decay_salience_damping);
    visit("asymptotic_decay_rate_per_day", &Policy::asymptotic_decay_rate_per_day);
    visit("flashbulb_threshold", &Policy::flashbulb_threshold);
    visit("flashbulb_floor", &Policy::flashbulb_floor);
    visit("important_threshold", &Policy::important_threshold);
    visit("important_floor", &Policy::important_floor);
    visit("access_boost", &Policy::access_boost);
    visit("access_salience_gain", &Policy::access_salience_gain);
    visit("strength_interval_seconds", &Policy::strength_interval_seconds);
    visit("reinforce_similarity_margin", &Policy::reinforce_similarity_margin);
    visit("rif_similarity", &Policy::rif_similarity);
    visit("rif_strength", &Policy::rif_strength);
    visit("rif_max_salience", &Policy::rif_max_salience);
    visit("rif_runners_up", &Policy::rif_runners_up);
    visit("open_task_boost", &Policy::open_task_boost);
    visit("completed_task_penalty", &Policy::completed_task_penalty);
    visit("open_task_salience", &Policy::open_task_salience);
    visit("completion_lowers_floor", &Policy::completion_lowers_floor);
    visit("vividness_weight", &Policy::vividness_weight);
    visit("recency_weight", &Policy::recency_weight);
    visit("recency_days", &Policy::recency_days);
    visit("vividness_ramp_start", &Policy::vividness_ramp_start);
    visit("vividness_ramp_end", &Policy::vividness_ramp_end);
    visit("recency_ramp_start", &Policy::recency_ramp_start);
    visit("recency_ramp_end", &Policy::recency_ramp_end);
    visit("lexical_weight", &Policy::lexical_weight);
    visit("lexical_saturation", &Policy::lexical_saturation);
    visit("surprise_threshold", &Policy::surprise_threshold);
    visit("surprise_min_samples", &Policy::surprise_min_samples);
    visit("surprise_relative_sd_floor", &Policy::surprise_relative_sd_floor);
    visit("surprise_neighbours", &Policy::surprise_neighbours);
    visit("surprise_max_salience", &Policy::surprise_max_salience);
    visit("importance_surprise_weight", &Policy::importance_surprise_weight);
    visit("importance_novelty_weight", &Policy::importance_novelty_weight);
    visit("novelty_days", &Policy::novelty_days);
    visit("max_surprise_pins", &Policy::max_surprise_pins);
    visit("max_surprise_pin_share", &Policy::max_surprise_pin_share);
}

constexpr const char* decay_law_name = "decay_law";

Policy from_keywords(const py::kwargs& values) {
    Policy policy;
    std::size_t used = 0;
    if (values.contains(decay_law_name)) {
        const auto law = values[decay_law_name].cast<std::string>();
        if (law != "clamp" && law != "asymptotic") {
            throw py::value_error("decay_law must be 'clamp' or 'asymptotic', got '" + law + "'");
        }
        policy.decay_law = law == "clamp" ? DecayLaw::clamp : DecayLaw::asymptotic;
        ++used;
    }
    for_each_field([&](const char* name, auto member) {
        if (!values.contains(name)) return;
        using Value = std::remove_reference_t<decltype(policy.*member)>;
        policy.*member = values[name].template cast<Value>();
        ++used;
    });
    if (used != values.size()) {
        for (const auto& item : values) {
            const auto given = item.first.cast<std::string>();
            bool known = given == decay_law_name;
            for_each_field([&](const char* name, auto) { known = known || given == name; });
            if (!known) throw py::type_error("unknown policy field '" + given + "'");
        }
    }
    policy.validate();
    return policy;
}

py::dict to_dict(const Policy& policy) {
    py::dict values;
    values[decay_law_name] = policy.decay_law == DecayLaw::clamp ? "clamp" : "asymptotic";
    for_each_field([&](const char* name, auto member) { values[name] = policy.*member; });
    return values;
}

}  // namespace

void register_policy(py::module_& module) {
    py::class_<Policy>(module, "Policy", "The constants of the laws, as the core takes them.")
        .def(py::init(&from_keywords))
        .def("to_dict", &to_dict)
        .def("floor_after_completion", &Policy::floor_after_completion, py::arg("floor"))
        .def("decay_rate", &Policy::decay_rate, py::arg("salience"));
}

}  // namespace flashbulb::bindings
