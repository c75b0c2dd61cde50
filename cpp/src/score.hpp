#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "flashbulb/search.hpp"
#include "kernels/table.hpp"

namespace flashbulb {

/// How a score rises with the similarity: each bonus is scaled by its ramp.
struct Ramps {
    kernels::Ramp vividness;
    kernels::Ramp recency;
};

[[nodiscard]] Ramps ramps_of(const Policy& policy, const SearchRequest& request) noexcept;

struct Scored {
    std::int64_t id;
    double score;
    double similarity;
    double cosine;
    double vividness_bonus;
    double recency_bonus;
};

/// Score descending, then id ascending.
[[nodiscard]] inline bool ranks_before(const Scored& a, const Scored& b) noexcept {
    return a.score != b.score ? a.score > b.score : a.id < b.id;
}

/// (similarity + scaled vividness bonus) + scaled recency bonus.
[[nodiscard]] double fused_score(const Ramps& ramps, double similarity, double vividness_bonus,
                                 double recency_bonus) noexcept;

/// The one definition of a score, for rows (ascending) and one query of a request.
[[nodiscard]] std::vector<Scored> score_rows(const VectorView& vectors, const TraceTable& traces,
                                             const SearchRequest& request, std::size_t query,
                                             const std::vector<std::size_t>& rows);

/// The best `count` of these rows (or all, if they are fewer) in the order of the result.
[[nodiscard]] std::vector<Scored> best_rows(const VectorView& vectors, const TraceTable& traces,
                                            const SearchRequest& request, std::size_t query,
                                            const std::vector<std::size_t>& rows,
                                            std::size_t count);

}  // namespace flashbulb
