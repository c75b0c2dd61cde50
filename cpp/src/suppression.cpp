#include "flashbulb/suppression.hpp"

#include <algorithm>
#include <limits>

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
    const std::size_t dim = vectors.dim();
    std::vector<float> fetched(vectors.direct() ? 0 : 2 * dim);
    std::vector<RelatedRow> result;
    for (const std::size_t row : rows) {
        if (!traces.is_live(row)) continue;
        if (std::find(accessed.begin(), accessed.end(), row) != accessed.end()) continue;
        const float* values = vectors.fetch(row, fetched.data());
        double largest = -std::numeric_limits<double>::infinity();
        for (const std::size_t other : accessed) {
            const float* other_values =
                vectors.fetch(other, fetched.data() + (vectors.direct() ? 0 : dim));
            largest = std::max(largest, inner_product(values, other_values, dim));
        }
        result.push_back({row, largest});
    }
    return result;
}

}  // namespace

std::vector<std::size_t> suppress(const VectorView& vectors, TraceTable& traces,
                                  std::span<const std::size_t> accessed,
                                  std::optional<std::span<const std::size_t>> related, double now,
                                  const Sketch* sketch) {
    const std::vector<RelatedRow> candidates =
        related ? closest_cosines(vectors, traces, accessed, *related)
                : related_rows(vectors, traces, accessed, traces.policy().rif_similarity, sketch);
    std::vector<std::size_t> moved;
    for (const RelatedRow& candidate : candidates) {
        if (traces.suppress(candidate.row, candidate.cosine, now)) moved.push_back(candidate.row);
    }
    return moved;
}

}  // namespace flashbulb
