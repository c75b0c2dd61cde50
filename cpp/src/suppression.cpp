#include "flashbulb/suppression.hpp"

#include <algorithm>

#include "flashbulb/search.hpp"

namespace flashbulb {

namespace {

// The few rows a caller names need no preselection.
std::vector<RelatedRow> closest_cosines(const VectorView& vectors, const TraceTable& traces,
                                        std::span<const std::size_t> accessed,
                                        std::span<const std::size_t> related) {
    std::vector<std::size_t> rows(related.begin(), related.end());
    std::sort(rows.begin(), rows.end());
    rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
    std::vector<RelatedRow> result;
    for (const std::size_t row : rows) {
        if (!traces.is_live(row)) continue;
        if (std::find(accessed.begin(), accessed.end(), row) != accessed.end()) continue;
        double largest = -2.0;
        for (const std::size_t other : accessed) {
            largest = std::max(largest,
                               inner_product(vectors.row(row), vectors.row(other), vectors.dim()));
        }
        result.push_back({row, largest});
    }
    return result;
}

}  // namespace

std::vector<std::size_t> suppress(const VectorView& vectors, TraceTable& traces,
                                  std::span<const std::size_t> accessed,
                                  std::optional<std::span<const std::size_t>> related, double now) {
    const std::vector<RelatedRow> candidates =
        related ? closest_cosines(vectors, traces, accessed, *related)
                : related_rows(vectors, traces, accessed, traces.policy().rif_similarity);
    std::vector<std::size_t> moved;
    for (const RelatedRow& candidate : candidates) {
        if (traces.suppress(candidate.row, candidate.cosine, now)) moved.push_back(candidate.row);
    }
    return moved;
}

}  // namespace flashbulb
