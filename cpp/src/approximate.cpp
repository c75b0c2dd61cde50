#include "flashbulb/approximate.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>

#include "block_filter.hpp"
#include "dispatch.hpp"
#include "flashbulb/thread_pool.hpp"
#include "request.hpp"
#include "row_set.hpp"
#include "selection.hpp"

namespace flashbulb {

namespace {

// The rows with the largest bonus are always looked at: this share of all, and up to the second
// where many have the same.
constexpr std::size_t vivid_divisor = 100;
constexpr std::size_t most_vivid_divisor = 20;
constexpr std::size_t sampled_rows = 4096;

// How many rows pass a filter is estimated from so many blocks.
constexpr std::size_t sampled_blocks = 64;

// A query takes as long as to read so many bytes of each row; about.
constexpr std::size_t bytes_a_row = 16;

// To look at more than this share of the rows, here and there, takes longer than at all of them.
constexpr std::size_t worthwhile_divisor = 4;

// With a filter so many times more rows are looked at than should be enough if those that pass lie
// anywhere. If they turn out too few, they lie elsewhere, and the lists tell little of the best.
constexpr double filter_allowance = 1.25;

void require_fitting(const VectorView& vectors, const SearchRequest& request,
                     const Approximation& approximation) {
    if (const Partition* partition = approximation.partition; partition != nullptr) {
        if (partition->dim() != vectors.dim() || partition->rows() > vectors.rows()) {
            throw std::invalid_argument(
                "expected a partition of dim " + std::to_string(vectors.dim()) + " with at most " +
                std::to_string(vectors.rows()) + " rows, got dim " +
                std::to_string(partition->dim()) + " with " + std::to_string(partition->rows()));
        }
        return;
    }
    if (request.query_count > 1) {
        throw std::invalid_argument("candidates belong to one query, got " +
                                    std::to_string(request.query_count));
    }
    for (const std::size_t row : approximation.candidates) {
        if (row < vectors.rows()) continue;
        throw std::invalid_argument("candidates must be rows below " +
                                    std::to_string(vectors.rows()) + ", got " +
                                    std::to_string(row));
    }
}

// Codes of the bonus, weighted as in a search: for an order, not for a bound.
struct WeightedBonus {
    const BonusBounds& bounds;
    float vividness_scale;
    float recency_scale;

    WeightedBonus(const BonusBounds& all, double vividness_weight, double recency_weight)
        : bounds(all),
          vividness_scale(static_cast<float>(vividness_weight) * bonus_bound_step),
          recency_scale(static_cast<float>(recency_weight) * bonus_bound_step) {}

    [[nodiscard]] float operator()(std::size_t row) const {
        return static_cast<float>(bounds.vividness[row]) * vividness_scale +
               static_cast<float>(bounds.recency[row]) * recency_scale;
    }

    // The bonus from which on a row is always looked at.
    [[nodiscard]] float threshold() const {
        const std::size_t rows = bounds.vividness.size();
        const std::size_t step = rows / sampled_rows + 1;
        std::vector<float> sample;
        for (std::size_t row = 0; row < rows; row += step) sample.push_back((*this)(row));
        if (sample.empty()) return 0.0F;
        const auto at = sample.begin() + static_cast<std::ptrdiff_t>(sample.size() / vivid_divisor);
        std::nth_element(sample.begin(), at, sample.end(), std::greater<>{});
        const float least = *at;
        const auto reaching = static_cast<std::size_t>(std::count_if(
            sample.begin(), sample.end(), [&](float bonus) { return bonus >= least; }));
        const bool few = reaching <= sample.size() / most_vivid_divisor + 1;
        return few ? least : std::nextafter(least, std::numeric_limits<float>::infinity());
    }
};

RowSet vivid_set(const TraceTable& traces, const WeightedBonus& bonus, std::size_t limit) {
    RowSet vivid(limit);
    active_kernels().mark_rows(traces.columns().flags, TraceTable::flashbulb,
                               bonus.bounds.vividness.data(), bonus.bounds.recency.data(), limit,
                               bonus.vividness_scale, bonus.recency_scale, bonus.threshold(),
                               vivid.words().data());
    return vivid;
}

// About what share of the rows passes the filter.
double passing_share(const TraceTable& traces, const Filter& filter) {
    const std::size_t rows = traces.rows();
    const std::size_t blocks = (rows + block_rows - 1) / block_rows;
    const std::size_t step = blocks / sampled_blocks + 1;
    std::size_t seen = 0;
    std::size_t passing = 0;
    BlockFilter passes(traces, filter, 0);
    std::array<std::uint8_t, block_rows> mask{};
    for (std::size_t block = 0; block < blocks; block += step) {
        const std::size_t begin = block * block_rows;
        const std::size_t count = std::min(block_rows, rows - begin);
        passing += passes(begin, count, mask.data());
        seen += count;
    }
    return seen == 0 ? 1.0 : static_cast<double>(passing) / static_cast<double>(seen);
}

bool keeps_everything(const Filter& filter) {
    return filter.tags.empty() && !filter.unknown_tag && !filter.status && !filter.allowed &&
           !has_window(filter);
}

// The part of an approximate search that is the same for all of its queries.
class Nearby {
public:
    Nearby(const VectorView& vectors, const TraceTable& traces, const SearchRequest& request,
           const Approximation& approximation)
        : vectors_(vectors),
          traces_(traces),
          request_(request),
          approximation_(approximation),
          listed_(approximation.partition != nullptr ? approximation.partition->rows()
                                                     : vectors.rows()),
          wanted_rows_(approximation.wanted_rows),
          filter_(request.filter),
          always_(0) {
        filter_.allowed.reset();
        prepare();
    }

    // Whether all rows should be looked at in the first place.
    [[nodiscard]] bool pointless() const noexcept { return pointless_; }

    // The best rows of one query; none if too few of those that are looked at pass.
    [[nodiscard]] std::vector<Scored> best(std::size_t query) const {
        const SearchRequest single = one_of(query);
        const SelectionPlan plan(vectors_, traces_, single);
        Selection selection(plan);
        RowSet near = near_rows(single);
        const auto count = static_cast<double>(near.size());
        if (allowed_) near.intersect(*allowed_);
        selection.scan(near);
        if (static_cast<double>(selection.allowed()) < least_share_ * count) return {};
        selection.scan(other_rows(single, near));
        if (always_.limit() < vectors_.rows()) {
            selection.scan(always_.limit(), vectors_.rows());
        }
        if (selection.allowed() < plan.k) return {};
        return best_rows(vectors_, traces_, single, 0, selection.selector(0).finalists(), plan.k);
    }

private:
    void prepare() {
        // Neighbours of the query tell little if they need not be near the top.
        const double bonus = request_.vividness_weight + request_.recency_weight;
        const auto bounds = traces_.bonus_bounds(request_.now);
        pointless_ = !(request_.similarity_weight > bonus) || bounds == nullptr ||
                     !worthwhile(enough_rows());
        const bool filtered = traces_.live() < traces_.rows() || !keeps_everything(request_.filter);
        if (!pointless_ && filtered) prepare_filter();
        if (pointless_) return;
        // Rows that are in no list are all looked at: by a scan, or one by one if only some are
        // allowed.
        const bool everywhere = request_.filter.allowed.has_value();
        const WeightedBonus weighted(*bounds, request_.vividness_weight, request_.recency_weight);
        always_ = vivid_set(traces_, weighted, everywhere ? vectors_.rows() : listed_);
        always_.insert_all(approximation_.candidates);
        if (!everywhere) return;
        allowed_.emplace(vectors_.rows());
        allowed_->insert_all(*request_.filter.allowed);
        for (std::size_t row = listed_; row < vectors_.rows(); ++row) always_.insert(row);
    }

    // How many rows of lists are enough where all of them pass; 0 for candidates.
    [[nodiscard]] double enough_rows() const {
        const Partition* partition = approximation_.partition;
        if (partition == nullptr) return 0.0;
        const double told = static_cast<double>(approximation_.least_lists) *
                            static_cast<double>(listed_) / static_cast<double>(partition->lists());
        return std::max(static_cast<double>(wanted_rows_), told);
    }

    [[nodiscard]] bool worthwhile(double rows) const {
        return rows * static_cast<double>(worthwhile_divisor) <= static_cast<double>(listed_);
    }

    // Looks at more lists, so that as many of their rows pass; tombstones do not.
    void prepare_filter() {
        const Partition* partition = approximation_.partition;
        if (partition == nullptr) {
            pointless_ = passing_candidates() < approximation_.least_candidates;
            return;
        }
        const double share = passing_share(traces_, request_.filter);
        const double passing = enough_rows();
        const double wanted = filter_allowance * passing / share;
        pointless_ = !worthwhile(wanted);
        if (pointless_) return;
        wanted_rows_ = static_cast<std::size_t>(wanted);
        least_share_ = share / filter_allowance;
    }

    [[nodiscard]] std::size_t passing_candidates() const {
        BlockFilter passes(traces_, request_.filter, 0);
        const auto& allowed = request_.filter.allowed;
        std::size_t passing = 0;
        for (const std::size_t row : approximation_.candidates) {
            if (allowed && !std::binary_search(allowed->begin(), allowed->end(), row)) continue;
            std::uint16_t place = 0;
            passing += passes.keep(row, &place, 1);
        }
        return passing;
    }

    [[nodiscard]] SearchRequest one_of(std::size_t query) const {
        SearchRequest single;
        single.queries = request_.queries + query * vectors_.dim();
        single.query_count = 1;
        single.k = request_.k;
        single.now = request_.now;
        single.similarity_weight = request_.similarity_weight;
        single.vividness_weight = request_.vividness_weight;
        single.recency_weight = request_.recency_weight;
        single.vividness_ramp_start = request_.vividness_ramp_start;
        single.vividness_ramp_end = request_.vividness_ramp_end;
        single.filter = filter_;
        if (!request_.addends.empty()) single.addends = {request_.addends[query]};
        single.sketch = request_.sketch;
        single.path = request_.path;
        return single;
    }

    // Rows of the lists near the query.
    [[nodiscard]] RowSet near_rows(const SearchRequest& single) const {
        RowSet rows(always_.limit());
        if (const Partition* partition = approximation_.partition; partition != nullptr) {
            for (const std::uint32_t list :
                 partition->nearest(single.queries, approximation_.least_lists, wanted_rows_)) {
                rows.insert_all(partition->members(list));
            }
        }
        return rows;
    }

    // What is looked at besides.
    [[nodiscard]] RowSet other_rows(const SearchRequest& single, const RowSet& near) const {
        RowSet rows = always_;
        for (const SparseAddends& addends : single.addends) rows.insert_all(addends.rows);
        if (allowed_) rows.intersect(*allowed_);
        rows.subtract(near);
        return rows;
    }

    const VectorView& vectors_;
    const TraceTable& traces_;
    const SearchRequest& request_;
    const Approximation& approximation_;
    std::size_t listed_;  // rows from here on are all looked at
    std::size_t wanted_rows_;
    double least_share_ = 0.0;  // of the rows near a query that must pass
    bool pointless_ = false;
    Filter filter_;  // without the allowed rows, which are a set of their own
    RowSet always_;
    std::optional<RowSet> allowed_;
};

// Seeks the hits of the queries that have none among all rows, by one search for all of them.
void complete(const VectorView& vectors, const TraceTable& traces, const SearchRequest& request,
              std::vector<std::vector<Scored>>& best) {
    std::vector<std::size_t> lacking;
    for (std::size_t query = 0; query < best.size(); ++query) {
        if (best[query].empty()) lacking.push_back(query);
    }
    if (lacking.empty()) return;
    SearchRequest rest = request;
    rest.addends.clear();
    std::vector<float> queries;
    for (const std::size_t query : lacking) {
        const float* values = request.queries + query * vectors.dim();
        queries.insert(queries.end(), values, values + vectors.dim());
        if (!request.addends.empty()) rest.addends.push_back(request.addends[query]);
    }
    rest.queries = queries.data();
    rest.query_count = lacking.size();
    const SearchResult found = search(vectors, traces, rest);
    for (std::size_t i = 0; i < lacking.size() * found.k; ++i) {
        best[lacking[i / found.k]].push_back({found.ids[i], found.scores[i], found.similarities[i],
                                              found.cosines[i], found.vividness_bonus[i],
                                              found.recency_bonus[i]});
    }
}

}  // namespace

SearchResult search_nearby(const VectorView& vectors, const TraceTable& traces,
                           const SearchRequest& request, const Approximation& approximation) {
    validate(vectors, traces, request);
    require_fitting(vectors, request, approximation);
    const std::size_t m = request.query_count;
    if (std::min(request.k, traces.live()) == 0) return {};
    const Nearby nearby(vectors, traces, request, approximation);
    if (m == 0 || nearby.pointless()) return search(vectors, traces, request);

    std::vector<std::vector<Scored>> best(m);
    const std::size_t parts = std::min(m, parts_for(m * vectors.rows() * bytes_a_row));
    run_parts(parts, [&](std::size_t part) {
        for (std::size_t query = m * part / parts; query < m * (part + 1) / parts; ++query) {
            best[query] = nearby.best(query);
        }
    });
    complete(vectors, traces, request, best);
    SearchResult result = empty_result(m, best.front().size());
    for (std::size_t query = 0; query < m; ++query) put(result, query, best[query]);
    return result;
}

std::vector<std::size_t> vivid_rows(const TraceTable& traces, double now, double vividness_weight,
                                    double recency_weight) {
    std::vector<std::size_t> rows;
    const auto bounds = traces.bonus_bounds(now);
    if (bounds == nullptr) return rows;
    const WeightedBonus bonus(*bounds, vividness_weight, recency_weight);
    vivid_set(traces, bonus, traces.rows()).visit(0, traces.rows(), [&](std::size_t row) {
        if (traces.is_live(row)) rows.push_back(row);
    });
    return rows;
}

}  // namespace flashbulb
