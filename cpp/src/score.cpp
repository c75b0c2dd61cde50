#include "score.hpp"

#include <algorithm>

#include "dispatch.hpp"
#include "parameters.hpp"

namespace flashbulb {

namespace {

using kernels::Ramp;
#include "kernels/laws.inl"

constexpr Ramp always_one{-0x1p1000, 1.0};

Ramp ramp_between(double start, double end) {
    return end > start ? Ramp{start, 1.0 / (end - start)} : always_one;
}

}  // namespace

Ramps ramps_of(const Policy& policy, const SearchRequest& request) noexcept {
    return {ramp_between(request.vividness_ramp_start.value_or(policy.vividness_ramp_start),
                         request.vividness_ramp_end.value_or(policy.vividness_ramp_end)),
            ramp_between(policy.recency_ramp_start, policy.recency_ramp_end)};
}

double fused_score(const Ramps& ramps, double similarity, double vividness_bonus,
                   double recency_bonus) noexcept {
    return fused(similarity, vividness_bonus, recency_bonus, ramps.vividness, ramps.recency);
}

std::vector<Scored> score_rows(const VectorView& vectors, const TraceTable& traces,
                               const SearchRequest& request, std::size_t query,
                               const std::vector<std::size_t>& rows) {
    const auto& kernels = active_kernels();
    const std::size_t dim = vectors.dim();
    const float* q = request.queries + query * dim;
    std::vector<float> fetched(vectors.direct() ? 0 : dim);
    const auto parameters = law_parameters(traces.policy(), request.now, request.vividness_weight,
                                           request.recency_weight);
    const auto columns = law_columns(traces.columns());
    const std::int64_t* ids = traces.columns().id;
    const Ramps ramps = ramps_of(traces.policy(), request);
    const SparseAddends none_given;
    const SparseAddends& addends = request.addends.empty() ? none_given : request.addends[query];
    std::size_t next_addend = 0;
    std::vector<Scored> scored;
    scored.reserve(rows.size());
    for (const std::size_t row : rows) {
        while (next_addend < addends.rows.size() && addends.rows[next_addend] < row) ++next_addend;
        const bool has_addend =
            next_addend < addends.rows.size() && addends.rows[next_addend] == row;
        const double cosine = kernels.inner_product(q, vectors.fetch(row, fetched.data()), dim);
        const double similarity =
            request.similarity_weight * cosine + (has_addend ? addends.values[next_addend] : 0.0);
        double vividness_bonus = 0.0;
        double recency_bonus = 0.0;
        kernels.bonus(columns, row, 1, parameters, &vividness_bonus, &recency_bonus);
        vividness_bonus *= ramped(ramps.vividness, similarity);
        recency_bonus *= ramped(ramps.recency, similarity);
        const double score = (similarity + vividness_bonus) + recency_bonus;
        scored.push_back({ids[row], score, similarity, cosine, vividness_bonus, recency_bonus});
    }
    return scored;
}

std::vector<Scored> best_rows(const VectorView& vectors, const TraceTable& traces,
                              const SearchRequest& request, std::size_t query,
                              const std::vector<std::size_t>& rows, std::size_t count) {
    std::vector<Scored> scored = score_rows(vectors, traces, request, query, rows);
    const auto end = scored.begin() + static_cast<std::ptrdiff_t>(std::min(count, scored.size()));
    std::partial_sort(scored.begin(), end, scored.end(), ranks_before);
    scored.erase(end, scored.end());
    return scored;
}

}  // namespace flashbulb
