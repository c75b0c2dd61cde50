#pragma once

#include <cstdint>

namespace flashbulb {

/// How vividness fades; `rate` is per day and may depend on the salience.
enum class DecayLaw {
    clamp,       ///< v(t) = max(v0 exp(-rate t), floor)
    asymptotic,  ///< v(t) = floor + (v0 - floor) exp(-rate t)
};

/// Every constant of the laws, as in the Python class `flashbulb.Policy`; a test compares names and
/// defaults of the two. Times are days or seconds as the names say; the rest is unitless. "Off"
/// names the value that restores the published form of a law.
struct Policy {
    /// @name Decay
    /// @{
    DecayLaw decay_law = DecayLaw::clamp;          ///< which of the two laws
    double decay_rate_per_day = 0.1;               ///< rate of the clamp law at salience 0
    double decay_salience_damping = 0.5;           ///< rate (1 - damping salience)
    double asymptotic_decay_rate_per_day = 0.097;  ///< rate of the asymptotic law
    /// @}

    /// @name Stability floors
    /// @{
    double flashbulb_threshold = 0.8;  ///< salience from which the floor is flashbulb_floor
    double flashbulb_floor = 0.7;      ///< the higher floor
    double important_threshold = 0.5;  ///< salience from which the floor is important_floor
    double important_floor = 0.4;      ///< the lower floor; below its threshold it is 0
    /// @}

    /// @name Access
    /// @{
    double access_boost = 0.1;          ///< v rises by boost (1 + gain salience), up to 1
    double access_salience_gain = 0.5;  ///< the gain
    /// Access and suppression move the strength of a memory at most once in this time. Off: 0.
    double strength_interval_seconds = 3600.0;
    /// A caller should touch only hits whose similarity is this close to the best. Off: infinity.
    double reinforce_similarity_margin = 0.1;
    /// @}

    /// @name Retrieval-induced forgetting
    /// @{
    double rif_similarity = 0.7;    ///< cosine above which a memory competes with an accessed one
    double rif_strength = 0.05;     ///< v falls by strength cosine, down to the floor
    double rif_max_salience = 0.7;  ///< a memory of a higher salience is never suppressed
    std::int64_t rif_runners_up = 20;  ///< ranks behind the hits at which a caller should look
    /// @}

    /// @name Tasks
    /// @{
    double open_task_boost = 0.2;  ///< effective v of an open task: min(v + boost urgency, 1)
    double completed_task_penalty = 0.1;  ///< of a completed one: max(v - penalty, floor)
    /// An open task counts in the score with max(salience, this * urgency). Off: 0.
    double open_task_salience = 0.5;
    bool completion_lowers_floor = true;  ///< by one class. Off: false
    /// @}

    /// @name Score
    /// @{
    double vividness_weight = 0.3;  ///< of effective vividness times salience
    double recency_weight = 0.1;    ///< of exp(-days / recency_days)
    double recency_days = 30.0;     ///< since the later of creation and last access
    /// The vividness bonus is scaled by a factor that rises from 0 at this similarity to 1 at
    /// vividness_ramp_end. Off: both equal.
    double vividness_ramp_start = 0.2;
    double vividness_ramp_end = 0.5;  ///< see vividness_ramp_start
    double recency_ramp_start = 0.3;  ///< the same for the recency bonus
    double recency_ramp_end = 0.6;    ///< see recency_ramp_start
    double lexical_weight = 0.3;      ///< w in similarity = (1 - w) cosine + w lexical. Off: 0
    double lexical_saturation = 8.0;  ///< c in lexical = b / (b + c) of a BM25 score b
    /// @}

    /// @name Surprise and importance
    /// @{
    double surprise_threshold = 3.0;           ///< z from which an event is a flashbulb
    std::int64_t surprise_min_samples = 30;    ///< events before which none is
    double surprise_relative_sd_floor = 0.01;  ///< least standard deviation / mean. Off: 0
    std::int64_t surprise_neighbours = 10;     ///< nearest memories whose mean distance counts
    double surprise_max_salience = 0.5;        ///< the most that surprise alone gives. Off: 1
    double importance_surprise_weight = 0.6;   ///< of sigmoid(z)
    double importance_novelty_weight = 0.4;    ///< of the temporal novelty T
    double novelty_days = 7.0;                 ///< tau in T = 1 - exp(-days / tau)
    /// At most max(this, max_surprise_pin_share * rows) memories are pinned by surprise.
    std::int64_t max_surprise_pins = 20;
    double max_surprise_pin_share = 0.001;  ///< see max_surprise_pins
    /// @}

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
