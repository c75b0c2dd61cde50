#pragma once

// From policy and table to what a kernel takes.

#include "flashbulb/policy.hpp"
#include "flashbulb/traces.hpp"
#include "kernels/table.hpp"

namespace flashbulb {

[[nodiscard]] inline kernels::LawColumns law_columns(const TraceTable::Columns& columns) noexcept {
    return {columns.vividness,  columns.vividness_time, columns.decay_rate,  columns.floor,
            columns.task_shift, columns.bonus_salience, columns.recency_time};
}

[[nodiscard]] inline kernels::LawParameters law_parameters(const Policy& policy, double now,
                                                           double vividness_weight,
                                                           double recency_weight) noexcept {
    return {policy.decay_law == DecayLaw::asymptotic, now, vividness_weight, recency_weight,
            1.0 / (policy.recency_days * 86400.0)};
}

}  // namespace flashbulb
