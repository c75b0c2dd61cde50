#include "flashbulb/search.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>
#include <string>

#include "dispatch.hpp"
#include "parameters.hpp"
#include "scanner.hpp"
#include "selector.hpp"

namespace flashbulb {

namespace {

// Weights and addends may be this large; a score of 1e12 still has four digits after the point.
constexpr double largest_term = 1e12;

double largest_addend(const SearchRequest& request) {
    double largest = 0.0;
    for (const SparseAddends& addends : request.addends) {
        for (const double value : addends.values) largest = std::max(largest, std::abs(value));
    }
    return largest;
}

// Rows of `sorted` inside [begin, end), as a range that only moves forward.
class Cursor {
public:
    explicit Cursor(const std::vector<std::size_t>& sorted) : sorted_(&sorted) {}

    template <class Visit>
    void visit(std::size_t begin, std::size_t end, Visit&& action) {
        while (place_ < sorted_->size() && (*sorted_)[place_] < begin) ++place_;
        while (place_ < sorted_->size() && (*sorted_)[place_] < end) {
            action((*sorted_)[place_], place_);
            ++place_;
        }
    }

private:
    const std::vector<std::size_t>* sorted_;
    std::size_t place_ = 0;
};

class BlockFilter {
public:
    BlockFilter(const TraceTable& traces, const Filter& filter)
        : traces_(traces),
          columns_(traces.columns()),
          filter_(filter),
          bloom_(tag_bloom(filter.tags)),
          has_window_(std::isfinite(filter.since) || std::isfinite(filter.until)),
          exempt_(filter.time_exempt),
          allowed_(filter.allowed ? *filter.allowed : no_rows_) {
        care_ = TraceTable::dead;
        if (filter.status) {
            care_ |= TraceTable::task | TraceTable::completed;
            if (*filter.status != TaskStatus::not_a_task) want_ |= TraceTable::task;
            if (*filter.status == TaskStatus::completed) want_ |= TraceTable::completed;
        }
    }

    /// Fills mask[0 .. count) for the rows from `begin`. @return how many pass.
    std::size_t operator()(std::size_t begin, std::size_t count, std::uint8_t* mask) {
        if (filter_.unknown_tag) return 0;
        const auto& kernels = active_kernels();
        kernels.filter_flags(columns_.flags + begin, count, care_, want_, mask);
        if (has_window_) {
            std::array<std::uint8_t, block_rows> before{};
            std::copy(mask, mask + count, before.begin());
            kernels.filter_times(columns_.created + begin, count, filter_.since, filter_.until,
                                 mask);
            exempt_.visit(begin, begin + count, [&](std::size_t row, std::size_t) {
                mask[row - begin] = before[row - begin];
            });
        }
        if (filter_.allowed) {
            std::array<std::uint8_t, block_rows> named{};
            allowed_.visit(begin, begin + count,
                           [&](std::size_t row, std::size_t) { named[row - begin] = 1; });
            for (std::size_t i = 0; i < count; ++i) mask[i] &= named[i];
        }
        if (!filter_.tags.empty()) {
            kernels.filter_blooms(columns_.tag_bloom + begin, count, bloom_, mask);
            for (std::size_t i = 0; i < count; ++i) {
                if (mask[i] != 0 && !traces_.has_tags(begin + i, filter_.tags)) mask[i] = 0;
            }
        }
        return static_cast<std::size_t>(std::count(mask, mask + count, std::uint8_t{1}));
    }

private:
    const TraceTable& traces_;
    TraceTable::Columns columns_;
    const Filter& filter_;
    std::uint64_t bloom_;
    bool has_window_;
    std::uint8_t care_ = 0;
    std::uint8_t want_ = 0;
    std::vector<std::size_t> no_rows_;
    Cursor exempt_;
    Cursor allowed_;
};

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
    if (std::isnan(request.filter.since) || std::isnan(request.filter.until)) {
        throw std::invalid_argument("since and until must not be NaN");
    }
    if (request.sketch != nullptr &&
        (request.sketch->rows() != vectors.rows() || request.sketch->dim() != vectors.dim())) {
        throw std::invalid_argument("expected a sketch of " + std::to_string(vectors.rows()) +
                                    " rows of dim " + std::to_string(vectors.dim()) + ", got " +
                                    std::to_string(request.sketch->rows()) + " of dim " +
                                    std::to_string(request.sketch->dim()));
    }
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

using kernels::Ramp;
#include "kernels/laws.inl"

constexpr Ramp always_one{-0x1p1000, 1.0};

Ramp ramp_between(double start, double end) {
    return end > start ? Ramp{start, 1.0 / (end - start)} : always_one;
}

kernels::FuseParameters fuse_parameters(const Policy& policy, const SearchRequest& request) {
    return {request.similarity_weight,
            ramp_between(policy.vividness_ramp_start, policy.vividness_ramp_end),
            ramp_between(policy.recency_ramp_start, policy.recency_ramp_end)};
}

struct Scored {
    std::int64_t id;
    double score;
    double similarity;
    double cosine;
    double vividness_bonus;
    double recency_bonus;
};

bool ranks_before(const Scored& a, const Scored& b) {
    return a.score != b.score ? a.score > b.score : a.id < b.id;
}

// The one definition of a score, for the finalists of one query.
std::vector<Scored> score_rows(const VectorView& vectors, const TraceTable& traces,
                               const SearchRequest& request, std::size_t query,
                               const std::vector<std::size_t>& rows) {
    const auto& kernels = active_kernels();
    const float* q = request.queries + query * vectors.dim();
    const auto parameters = law_parameters(traces.policy(), request.now, request.vividness_weight,
                                           request.recency_weight);
    const auto columns = law_columns(traces.columns());
    const std::int64_t* ids = traces.columns().id;
    const kernels::FuseParameters fuse = fuse_parameters(traces.policy(), request);
    const SparseAddends none_given;
    const SparseAddends& addends = request.addends.empty() ? none_given : request.addends[query];
    std::size_t next_addend = 0;
    std::vector<Scored> scored;
    scored.reserve(rows.size());
    for (const std::size_t row : rows) {
        while (next_addend < addends.rows.size() && addends.rows[next_addend] < row) ++next_addend;
        const bool has_addend =
            next_addend < addends.rows.size() && addends.rows[next_addend] == row;
        const double cosine = kernels.inner_product(q, vectors.row(row), vectors.dim());
        const double similarity =
            request.similarity_weight * cosine + (has_addend ? addends.values[next_addend] : 0.0);
        double vividness_bonus = 0.0;
        double recency_bonus = 0.0;
        kernels.bonus(columns, row, 1, parameters, &vividness_bonus, &recency_bonus);
        vividness_bonus *= ramped(fuse.vividness, similarity);
        recency_bonus *= ramped(fuse.recency, similarity);
        const double score = (similarity + vividness_bonus) + recency_bonus;
        scored.push_back({ids[row], score, similarity, cosine, vividness_bonus, recency_bonus});
    }
    return scored;
}

}  // namespace

SearchResult search(const VectorView& vectors, const TraceTable& traces,
                    const SearchRequest& request) {
    validate(vectors, traces, request);
    const std::size_t m = request.query_count;
    const std::size_t k = std::min(request.k, traces.live());
    SearchResult result;
    if (m == 0 || k == 0) return result;

    const auto& kernels = active_kernels();
    const auto columns = law_columns(traces.columns());
    const auto parameters = law_parameters(traces.policy(), request.now, request.vividness_weight,
                                           request.recency_weight);
    const kernels::FuseParameters fuse = fuse_parameters(traces.policy(), request);
    const std::unique_ptr<Scanner> scanner = request.sketch != nullptr
                                                 ? scan_sketch(*request.sketch, request.queries, m)
                                                 : scan_rows(request.queries, vectors.dim());
    // From the error of a cosine to that of a similarity; the second part is what the float64 sums
    // round away, a few units in the last place of the largest term.
    const double error_scale = std::abs(request.similarity_weight);
    const double error_offset = (error_scale + largest_addend(request) + request.vividness_weight +
                                 request.recency_weight) *
                                0x1p-49;

    std::vector<FinalistSelector> selectors(m, FinalistSelector(k));
    std::vector<Cursor> addend_cursors;
    for (const SparseAddends& addends : request.addends) addend_cursors.emplace_back(addends.rows);
    BlockFilter filter(traces, request.filter);

    alignas(64) std::array<std::uint8_t, block_rows> mask{};
    alignas(64) std::array<float, block_rows> cosines{};
    alignas(64) std::array<double, block_rows> errors{};
    alignas(64) std::array<double, block_rows> addend_values{};
    alignas(64) std::array<double, block_rows> vividness_bonus{};
    alignas(64) std::array<double, block_rows> recency_bonus{};
    alignas(64) std::array<double, block_rows> upper{};
    std::size_t allowed = 0;

    for_each_block(
        vectors, request.sketch, [&](std::size_t begin, std::size_t count, const float* rows) {
            const std::size_t passing = filter(begin, count, mask.data());
            if (passing == 0) return;
            allowed += passing;
            const Block block{begin, count, rows, mask.data(), passing};
            kernels.bonus(columns, begin, count, parameters, vividness_bonus.data(),
                          recency_bonus.data());
            for (std::size_t query = 0; query < m; ++query) {
                scanner->scan(query, block, cosines.data(), errors.data());
                for (std::size_t i = 0; i < count; ++i) {
                    errors[i] = errors[i] * error_scale + error_offset;
                }
                bool has_addends = false;
                if (!request.addends.empty()) {
                    addend_cursors[query].visit(
                        begin, begin + count, [&](std::size_t row, std::size_t place) {
                            addend_values[row - begin] = request.addends[query].values[place];
                            has_addends = true;
                        });
                }
                const double best = kernels.fuse(
                    cosines.data(), errors.data(), addend_values.data(), vividness_bonus.data(),
                    recency_bonus.data(), mask.data(), count, fuse, upper.data());
                FinalistSelector& selector = selectors[query];
                if (best >= selector.cut()) {
                    for (std::size_t i = 0; i < count; ++i) {
                        if (upper[i] < selector.cut()) continue;
                        const double similarity =
                            (request.similarity_weight * static_cast<double>(cosines[i]) +
                             addend_values[i]) -
                            errors[i];
                        selector.offer(begin + i,
                                       fused(similarity, vividness_bonus[i], recency_bonus[i],
                                             fuse.vividness, fuse.recency),
                                       upper[i]);
                    }
                }
                if (has_addends) addend_values.fill(0.0);
            }
        });

    result.k = std::min(k, allowed);
    const std::size_t total = m * result.k;
    result.ids.reserve(total);
    for (auto* values : {&result.scores, &result.similarities, &result.cosines,
                         &result.vividness_bonus, &result.recency_bonus}) {
        values->reserve(total);
    }
    for (std::size_t query = 0; query < m; ++query) {
        std::vector<Scored> scored =
            score_rows(vectors, traces, request, query, selectors[query].finalists());
        const auto end = scored.begin() + static_cast<std::ptrdiff_t>(result.k);
        std::partial_sort(scored.begin(), end, scored.end(), ranks_before);
        for (auto each = scored.begin(); each != end; ++each) {
            result.ids.push_back(each->id);
            result.scores.push_back(each->score);
            result.similarities.push_back(each->similarity);
            result.cosines.push_back(each->cosine);
            result.vividness_bonus.push_back(each->vividness_bonus);
            result.recency_bonus.push_back(each->recency_bonus);
        }
    }
    return result;
}

std::vector<RelatedRow> related_rows(const VectorView& vectors, const TraceTable& traces,
                                     std::span<const std::size_t> accessed, double threshold) {
    if (vectors.rows() != traces.rows()) {
        throw std::invalid_argument("expected as many vectors as traces, got " +
                                    std::to_string(vectors.rows()) + " and " +
                                    std::to_string(traces.rows()));
    }
    const auto& kernels = active_kernels();
    const std::size_t dim = vectors.dim();
    const double preselect = threshold - float32_error(dim) - 1e-9;
    std::vector<std::size_t> own(accessed.begin(), accessed.end());
    std::sort(own.begin(), own.end());
    std::vector<RelatedRow> result;
    alignas(64) std::array<float, block_rows> cosines{};
    for_each_block(vectors, nullptr, [&](std::size_t begin, std::size_t count, const float* rows) {
        alignas(64) std::array<float, block_rows> largest;
        largest.fill(-2.0F);
        for (const std::size_t row : own) {
            kernels.select_inner_products(vectors.row(row), rows, count, dim, cosines.data());
            for (std::size_t i = 0; i < count; ++i) largest[i] = std::max(largest[i], cosines[i]);
        }
        for (std::size_t i = 0; i < count; ++i) {
            if (static_cast<double>(largest[i]) < preselect) continue;
            const std::size_t row = begin + i;
            if (!traces.is_live(row) || std::binary_search(own.begin(), own.end(), row)) continue;
            double cosine = -2.0;
            for (const std::size_t other : own) {
                cosine = std::max(cosine,
                                  kernels.inner_product(rows + i * dim, vectors.row(other), dim));
            }
            if (cosine > threshold) result.push_back({row, cosine});
        }
    });
    return result;
}

}  // namespace flashbulb
