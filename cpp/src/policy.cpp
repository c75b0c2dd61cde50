#include "flashbulb/policy.hpp"

#include <cmath>
#include <stdexcept>
#include <string>

namespace flashbulb {

namespace {

void require_range(const char* name, double value, double low, double high) {
    if (!(value >= low && value <= high)) {
        throw std::invalid_argument(std::string(name) + " must be in [" + std::to_string(low) +
                                    ", " + std::to_string(high) + "], got " +
                                    std::to_string(value));
    }
}

void require_count(const char* name, std::int64_t value, std::int64_t low, std::int64_t high) {
    if (value < low || value > high) {
        throw std::invalid_argument(std::string(name) + " must be in [" + std::to_string(low) +
                                    ", " + std::to_string(high) + "], got " +
                                    std::to_string(value));
    }
}

// A narrower ramp would be a step, which the slack of a search cannot follow.
constexpr double narrowest_ramp = 1e-6;

void require_ramp(const char* start_name, double start, const char* end_name, double end) {
    require_range(start_name, start, -1, 1);
    require_range(end_name, end, start, 1);
    if (end > start && end - start < narrowest_ramp) {
        throw std::invalid_argument(std::string(end_name) + " must equal " + start_name +
                                    " or exceed it by 1e-6, got " + std::to_string(end) + " and " +
                                    std::to_string(start));
    }
}

}  // namespace

void Policy::validate() const {
    constexpr double large = 1e12;
    constexpr double tiny = 1e-9;
    require_range("decay_rate_per_day", decay_rate_per_day, 0, large);
    require_range("decay_salience_damping", decay_salience_damping, 0, 1);
    require_range("asymptotic_decay_rate_per_day", asymptotic_decay_rate_per_day, 0, large);
    require_range("flashbulb_threshold", flashbulb_threshold, 0, 1);
    require_range("flashbulb_floor", flashbulb_floor, 0, 1);
    require_range("important_threshold", important_threshold, 0, flashbulb_threshold);
    require_range("important_floor", important_floor, 0, flashbulb_floor);
    require_range("access_boost", access_boost, 0, 1);
    require_range("access_salience_gain", access_salience_gain, 0, large);
    require_range("strength_interval_seconds", strength_interval_seconds, 0, INFINITY);
    require_range("reinforce_similarity_margin", reinforce_similarity_margin, 0, INFINITY);
    require_range("rif_similarity", rif_similarity, 0, 1);
    require_range("rif_strength", rif_strength, 0, 1);
    require_range("rif_max_salience", rif_max_salience, 0, 1);
    require_range("open_task_boost", open_task_boost, 0, 1);
    require_range("completed_task_penalty", completed_task_penalty, 0, 1);
    require_range("open_task_salience", open_task_salience, 0, 1);
    require_range("vividness_weight", vividness_weight, 0, 1e3);
    require_range("recency_weight", recency_weight, 0, 1e3);
    require_range("recency_days", recency_days, tiny, large);
    require_ramp("vividness_ramp_start", vividness_ramp_start, "vividness_ramp_end",
                 vividness_ramp_end);
    require_ramp("recency_ramp_start", recency_ramp_start, "recency_ramp_end", recency_ramp_end);
    require_range("lexical_weight", lexical_weight, 0, 1);
    require_range("lexical_saturation", lexical_saturation, tiny, large);
    require_range("surprise_threshold", surprise_threshold, 0, INFINITY);
    require_range("surprise_relative_sd_floor", surprise_relative_sd_floor, 0, 1);
    require_range("surprise_max_salience", surprise_max_salience, 0, 1);
    require_range("importance_surprise_weight", importance_surprise_weight, 0, 1);
    require_range("importance_novelty_weight", importance_novelty_weight, 0, 1);
    require_range("novelty_days", novelty_days, tiny, large);
    require_range("max_surprise_pin_share", max_surprise_pin_share, 0, 1);
    require_count("rif_runners_up", rif_runners_up, 0, 10'000);
    require_count("surprise_min_samples", surprise_min_samples, 2, 1'000'000'000);
    require_count("surprise_neighbours", surprise_neighbours, 1, 1000);
    require_count("max_surprise_pins", max_surprise_pins, 0, 1'000'000'000);
}

double Policy::floor_for(double salience) const noexcept {
    if (salience >= flashbulb_threshold) return flashbulb_floor;
    if (salience >= important_threshold) return important_floor;
    return 0.0;
}

double Policy::floor_after_completion(double floor) const noexcept {
    if (!completion_lowers_floor) return floor;
    if (floor >= flashbulb_floor) return important_floor;
    return 0.0;
}

double Policy::decay_rate(double salience) const noexcept {
    return decay_law == DecayLaw::asymptotic
               ? asymptotic_decay_rate_per_day
               : decay_rate_per_day * (1.0 - decay_salience_damping * salience);
}

}  // namespace flashbulb
