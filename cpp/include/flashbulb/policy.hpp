#pragma once

#include <cstdint>

namespace flashbulb {

enum class DecayLaw {
    clamp,       ///< v(t) = max(v0 exp(-rate t), floor)
    asymptotic,  ///< v(t) = floor + (v0 - floor) exp(-rate t)
};

/// Every constant of the laws. Times are days or seconds as the names say; the rest is unitless.
/// The meaning of each field is documented once, in the Python class `flashbulb.Policy`; a test
/// compares names and defaults of the two.
struct Policy {
    DecayLaw decay_law = DecayLaw::clamp;
    double decay_rate_per_day = 0.1;
    double decay_salience_damping = 0.5;
    double asymptotic_decay_rate_per_day = 0.097;

    double flashbulb_threshold = 0.8;
    double flashbulb_floor = 0.7;
    double important_threshold = 0.5;
    double important_floor = 0.4;

    double access_boost = 0.1;
    double access_salience_gain = 0.5;
    double strength_interval_seconds = 3600.0;
    double reinforce_similarity_margin = 0.1;

    double rif_similarity = 0.7;
    double rif_strength = 0.05;
    double rif_max_salience = 0.7;
    std::int64_t rif_runners_up = 20;

    double open_task_boost = 0.2;
    double completed_task_penalty = 0.1;
    double open_task_salience = 0.5;
    bool completion_lowers_floor = true;

    double vividness_weight = 0.3;
    double recency_weight = 0.1;
    double recency_days = 30.0;
    double vividness_ramp_start = 0.0;
    double vividness_ramp_end = 0.1;
    double recency_ramp_start = 0.3;
    double recency_ramp_end = 0.6;
    double lexical_weight = 0.3;
    double lexical_saturation = 8.0;

    double surprise_threshold = 3.0;
    std::int64_t surprise_min_samples = 30;
    double surprise_relative_sd_floor = 0.01;
    std::int64_t surprise_neighbours = 10;
    double surprise_max_salience = 0.5;
    double importance_surprise_weight = 0.6;
    double importance_novelty_weight = 0.4;
    double novelty_days = 7.0;
    std::int64_t max_surprise_pins = 20;
    double max_surprise_pin_share = 0.001;

    /// @throws std::invalid_argument naming the first field that is not finite or out of range.
    void validate() const;

    /// Stability floor that a salience in [0, 1] gives.
    [[nodiscard]] double floor_for(double salience) const noexcept;

    /// Floor one class below `floor`: what completing a task leaves of it.
    [[nodiscard]] double floor_after_completion(double floor) const noexcept;

    /// Decay rate per day of a memory with this salience.
    [[nodiscard]] double decay_rate(double salience) const noexcept;
};

}  // namespace flashbulb
