#include "request.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

namespace flashbulb {

namespace {

// Weights and addends may be this large; a score of 1e12 still has four digits after the point.
constexpr double largest_term = 1e12;

void require_rows(const std::vector<std::size_t>& rows, std::size_t limit, const char* name) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
        if (rows[i] >= limit || (i > 0 && rows[i] <= rows[i - 1])) {
            throw std::invalid_argument(std::string(name) +
                                        " must be ascending rows without repeats below " +
                                        std::to_string(limit) + ", got " + std::to_string(rows[i]));
        }
    }
}

void require_finite(double value, const char* name) {
    if (!std::isfinite(value)) {
        throw std::invalid_argument(std::string(name) + " must be finite, got " +
                                    std::to_string(value));
    }
}

void require_term(double value, const char* name) {
    if (!(std::abs(value) <= largest_term)) {
        throw std::invalid_argument(std::string(name) + " must be in [-1e12, 1e12], got " +
                                    std::to_string(value));
    }
}

}  // namespace

void validate(const VectorView& vectors, const TraceTable& traces, const SearchRequest& request) {
    if (vectors.rows() != traces.rows()) {
        throw std::invalid_argument("expected as many vectors as traces, got " +
                                    std::to_string(vectors.rows()) + " and " +
                                    std::to_string(traces.rows()));
    }
    require_finite(request.now, "now");
    require_term(request.similarity_weight, "similarity_weight");
    if (!(request.vividness_weight >= 0.0) || !(request.recency_weight >= 0.0)) {
        throw std::invalid_argument("vividness_weight and recency_weight must be at least 0, got " +
                                    std::to_string(request.vividness_weight) + " and " +
                                    std::to_string(request.recency_weight));
    }
    require_term(request.vividness_weight, "vividness_weight");
    require_term(request.recency_weight, "recency_weight");
    if (request.vividness_ramp_start || request.vividness_ramp_end) {
        Policy policy = traces.policy();
        policy.vividness_ramp_start =
            request.vividness_ramp_start.value_or(policy.vividness_ramp_start);
        policy.vividness_ramp_end = request.vividness_ramp_end.value_or(policy.vividness_ramp_end);
        policy.validate();
    }
    if (std::isnan(request.filter.since) || std::isnan(request.filter.until)) {
        throw std::invalid_argument("since and until must not be NaN");
    }
    if (request.sketch != nullptr) request.sketch->require_rows_of(vectors);
    if (!request.addends.empty() && request.addends.size() != request.query_count) {
        throw std::invalid_argument("expected addends for " + std::to_string(request.query_count) +
                                    " queries, got " + std::to_string(request.addends.size()));
    }
    for (const SparseAddends& addends : request.addends) {
        if (addends.rows.size() != addends.values.size()) {
            throw std::invalid_argument("an addend needs one value a row");
        }
        require_rows(addends.rows, traces.rows(), "addend rows");
        for (const double value : addends.values) require_term(value, "addend");
    }
    require_rows(request.filter.time_exempt, traces.rows(), "time_exempt");
    if (request.filter.allowed) require_rows(*request.filter.allowed, traces.rows(), "allowed");
    for (std::size_t i = 0; i < request.query_count * vectors.dim(); ++i) {
        if (!std::isfinite(request.queries[i])) {
            throw std::invalid_argument("query " + std::to_string(i / vectors.dim()) +
                                        " holds a value that is not finite");
        }
    }
}

SearchResult empty_result(std::size_t queries, std::size_t k) {
    SearchResult result;
    result.k = k;
    result.ids.resize(queries * k);
    for (auto* values : {&result.scores, &result.similarities, &result.cosines,
                         &result.vividness_bonus, &result.recency_bonus}) {
        values->resize(queries * k);
    }
    return result;
}

void put(SearchResult& result, std::size_t query, const std::vector<Scored>& hits) {
    for (std::size_t place = 0; place < result.k; ++place) {
        const Scored& hit = hits[place];
        const std::size_t i = query * result.k + place;
        result.ids[i] = hit.id;
        result.scores[i] = hit.score;
        result.similarities[i] = hit.similarity;
        result.cosines[i] = hit.cosine;
        result.vividness_bonus[i] = hit.vividness_bonus;
        result.recency_bonus[i] = hit.recency_bonus;
    }
}

}  // namespace flashbulb
