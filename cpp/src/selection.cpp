#include "selection.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "dispatch.hpp"
#include "parameters.hpp"

namespace flashbulb {

namespace {

// Below this share of wanted rows, only those are read.
constexpr std::size_t sparse_divisor = 4;

// From how many queries on a batch is worth the unpacking, and from how many reading both planes
// is.
constexpr std::size_t smallest_batch = 4;
constexpr std::size_t smallest_full_batch = 17;

// From how many rows on the high plane alone is read first: sooner where both cost more arithmetic.
constexpr std::size_t smallest_coarse_scan = 4096;
constexpr std::size_t smallest_coarse_scan_of_whole_codes = 8192;

// So many rows that may be wanted wait for each other, and so many of them are looked at in order.
constexpr std::size_t most_survivors = 256;
constexpr std::size_t most_promising = 16;

float above(double value) {
    const auto nearest = static_cast<float>(value);
    return static_cast<double>(nearest) >= value
               ? nearest
               : std::nextafter(nearest, std::numeric_limits<float>::infinity());
}

float below(double value) { return -above(-value); }

double largest_addend(const SearchRequest& request) {
    double largest = 0.0;
    for (const SparseAddends& addends : request.addends) {
        for (const double value : addends.values) largest = std::max(largest, std::abs(value));
    }
    return largest;
}

// What rounding can hide in a float32 inner product: (d + 8) 2^-24 |q||x|.
double rounding_error(std::size_t dim, double query_norm, double row_norm) noexcept {
    return (static_cast<double>(dim) + 8.0) * 0x1p-24 * query_norm * row_norm;
}

constexpr double query_norm = 1.0 + 1e-5;  // of a unit vector in float32, at most

constexpr double relative_margin = 1.0 + 0x1p-20;  // covers a few roundings of float32 products

}  // namespace

SearchPath resolve(SearchPath path, std::size_t rows) {
    if (path != SearchPath::automatic) return path;
    const std::size_t enough = BatchProducts::multiplies_both_planes()
                                   ? smallest_coarse_scan_of_whole_codes
                                   : smallest_coarse_scan;
    return rows >= enough ? SearchPath::int4 : SearchPath::int8;
}

SelectionPlan::SelectionPlan(const VectorView& store, const TraceTable& table,
                             const SearchRequest& wanted)
    : vectors(store),
      traces(table),
      request(wanted),
      k(std::min(wanted.k, table.live())),
      bounds(table.bonus_bounds(wanted.now)),
      columns(law_columns(table.columns())),
      laws(law_parameters(table.policy(), wanted.now, wanted.vividness_weight,
                          wanted.recency_weight)),
      plain_laws(law_parameters(table.policy(), wanted.now, 1.0, 1.0)),
      ramps(ramps_of(table.policy(), wanted)) {
    const bool sketched = request.sketch != nullptr;
    batch = sketched && request.query_count >= smallest_batch;
    full_batch = request.path != SearchPath::int4 && BatchProducts::multiplies_both_planes() &&
                 (request.path == SearchPath::int8 || request.query_count >= smallest_full_batch);
    coarse = sketched && resolve(request.path, vectors.rows()) == SearchPath::int4;
    if (sketched) {
        queries.emplace(*request.sketch, request.queries, request.query_count, query_norm,
                        vectors.norm_bound(), batch);
    }

    error_scale = std::abs(request.similarity_weight);
    const double largest_term = error_scale * vectors.norm_bound() + largest_addend(request) +
                                request.vividness_weight + request.recency_weight;
    error_offset = largest_term * 0x1p-49;
    // Every float32 operation of a bound rounds by at most 2^-24 of the largest term, which is at
    // most about twice the sum of the weights; the lower limit keeps tiny weights out of underflow.
    rounding = above(std::max(largest_term, 1e-20) * 0x1p-18);
    float32_error =
        above(error_scale * rounding_error(vectors.dim(), query_norm, vectors.norm_bound()));
    const auto slope = [](double value) { return above(std::min(value * relative_margin, 1e30)); };
    bound.similarity_weight = static_cast<float>(request.similarity_weight);
    bound.vividness_scale =
        above(request.vividness_weight * static_cast<double>(bonus_bound_step) * relative_margin);
    bound.recency_scale =
        above(request.recency_weight * static_cast<double>(bonus_bound_step) * relative_margin);
    bound.vividness_start = below(ramps.vividness.start);
    bound.vividness_slope = slope(ramps.vividness.slope);
    bound.recency_start = below(ramps.recency.start);
    bound.recency_slope = slope(ramps.recency.slope);
    bound.residual_slope = 0.0F;
    bound.error = rounding;
}

Selection::Selection(const SelectionPlan& plan)
    : plan_(plan),
      selectors_(plan.request.query_count, FinalistSelector(plan.k)),
      survivors_(plan.batch ? 0 : plan.request.query_count) {
    if (plan.request.sketch == nullptr && !plan.vectors.direct()) {
        fetched_.resize(block_rows * plan.vectors.dim());
    }
    if (plan.batch) {
        batch_.emplace(*plan.queries, plan.request.sketch->stride(), plan.full_batch);
        hits_.resize(BatchProducts::most_rows * CodedQueries::lanes);
    }
}

void Selection::merge(const Selection& other) {
    for (std::size_t query = 0; query < selectors_.size(); ++query) {
        selectors_[query].merge(other.selectors_[query]);
    }
    allowed_ += other.allowed_;
}

void Selection::start(std::size_t begin) {
    filter_.emplace(plan_.traces, plan_.request.filter, begin);
    addends_.clear();
    for (const SparseAddends& addends : plan_.request.addends) {
        addends_.emplace_back(addends.rows, begin);
    }
}

void Selection::scan(std::size_t begin, std::size_t end) {
    start(begin);
    while ((begin = filter_->next(begin, end)) < end) {
        std::size_t count = std::min(block_rows, end - begin);
        if (plan_.request.sketch != nullptr) {
            count = std::min(count, Sketch::chunk_rows - begin % Sketch::chunk_rows);
        } else {
            count = std::min(count, plan_.vectors.run(begin));
        }
        scan_range(begin, count);
        begin += count;
    }
    finish();
}

void Selection::scan(const RowSet& rows) {
    start(0);
    static_assert(Sketch::chunk_rows <= std::size_t{1} << 16U, "a place has 16 bits");
    for (std::size_t begin = 0; begin < rows.limit(); begin += Sketch::chunk_rows) {
        std::size_t count = 0;
        rows.visit(begin, begin + Sketch::chunk_rows, [&](std::size_t row) {
            prefetch_columns(row);
            places_[count++] = static_cast<std::uint16_t>(row - begin);
            if (count < block_rows) return;
            scan_places(begin, count);
            count = 0;
        });
        scan_places(begin, count);
    }
    finish();
}

void Selection::finish() {
    for (std::size_t query = 0; query < survivors_.size(); ++query) consider_survivors(query);
}

void Selection::scan_range(std::size_t begin, std::size_t count) {
    const std::size_t wanted = (*filter_)(begin, count, mask_.data());
    const Block block{begin, count, wanted, wanted * sparse_divisor < count};
    if (block.sparse) {
        std::size_t place = 0;
        for (std::size_t i = 0; i < count; ++i) {
            if (mask_[i] != 0) places_[place++] = static_cast<std::uint16_t>(i);
        }
    }
    scan_block(block);
}

void Selection::scan_places(std::size_t begin, std::size_t count) {
    const std::size_t wanted = filter_->keep(begin, places_.data(), count);
    scan_block(
        {begin, wanted == 0 ? std::size_t{0} : places_[wanted - 1] + std::size_t{1}, wanted, true});
}

void Selection::scan_block(const Block& block) {
    if (block.wanted == 0) return;
    allowed_ += block.wanted;
    take_columns(block);
    if (plan_.request.sketch == nullptr && !block.sparse) {
        block_vectors_ = plan_.vectors.fetch(block.begin, block.count, fetched_.data());
    }
    if (plan_.batch) {
        scan_batch(block);
    } else {
        for (std::size_t query = 0; query < plan_.request.query_count; ++query) {
            scan_query(query, block);
        }
    }
}

template <class Action>
void Selection::visit_addends(std::size_t query, const Block& block, Action&& action) {
    const std::size_t first = block.begin + (block.sparse ? places_[0] : 0);
    addends_[query].visit(
        first, block.begin + block.count, [&](std::size_t row, std::size_t number) {
            std::size_t i = row - block.begin;
            if (block.sparse) {
                const auto end = places_.begin() + static_cast<std::ptrdiff_t>(block.wanted);
                const auto found = std::lower_bound(places_.begin(), end, i);
                if (found == end || *found != i) return;
                i = static_cast<std::size_t>(found - places_.begin());
            } else if (mask_[i] == 0) {
                return;
            }
            action(i, number);
        });
}

// Points the columns at the block, or gathers those of its wanted rows.
void Selection::take_columns(const Block& block) {
    const Sketch* sketch = plan_.request.sketch;
    const float* scales = nullptr;
    const float* residuals = cosines_.data();  // of rows in float32: any values, their slope is 0
    if (sketch != nullptr) {
        const Sketch::Run run = sketch->run(block.begin);
        scales = run.scales;
        const bool high_only = plan_.batch ? !plan_.full_batch : plan_.coarse;
        residuals = high_only ? run.residuals4 : run.residuals8;
    }
    const std::uint16_t* vividness = vividness_.data();
    const std::uint16_t* recency = recency_.data();
    if (plan_.bounds != nullptr) {
        vividness = plan_.bounds->vividness.data() + block.begin;
        recency = plan_.bounds->recency.data() + block.begin;
    } else if (!block.sparse) {
        active_kernels().bonus_bounds(plan_.columns, block.begin, block.count, plan_.plain_laws,
                                      vividness_.data(), recency_.data());
    }
    if (block.sparse) {
        for (std::size_t i = 0; i < block.wanted; ++i) {
            const std::size_t place = places_[i];
            if (plan_.bounds != nullptr) {
                vividness_[i] = vividness[place];
                recency_[i] = recency[place];
            } else {
                active_kernels().bonus_bounds(plan_.columns, block.begin + place, 1,
                                              plan_.plain_laws, &vividness_[i], &recency_[i]);
            }
            if (sketch != nullptr) {
                scales_[i] = scales[place];
                residuals_[i] = residuals[place];
            }
        }
        vividness = vividness_.data();
        recency = recency_.data();
        if (sketch != nullptr) {
            scales = scales_.data();
            residuals = residuals_.data();
        }
    }
    block_scales_ = scales;
    block_residuals_ = residuals;
    block_vividness_ = vividness;
    block_recency_ = recency;
}

void Selection::scan_query(std::size_t query, const Block& block) {
    const auto& kernels = active_kernels();
    const std::size_t count = block.sparse ? block.wanted : block.count;
    CosineError error{0.0, 0.0};
    kernels::BoundParameters bound = plan_.bound;
    if (const Sketch* sketch = plan_.request.sketch; sketch != nullptr) {
        const CodedQueries& queries = *plan_.queries;
        const Sketch::Run run = sketch->run(block.begin);
        const std::size_t stride = sketch->stride();
        if (plan_.coarse) {
            error = queries.coarse_error(query);
            if (block.sparse) {
                kernels.gather_int4(run.high, places_.data(), count, stride, queries[query],
                                    block_scales_, cosines_.data());
            } else {
                kernels.scan_int4(run.high, count, stride, queries[query], block_scales_,
                                  cosines_.data());
            }
        } else {
            error = queries.fine_error(query);
            if (block.sparse) {
                for (std::size_t i = 0; i < count; ++i) {
                    kernels.scan_int8(run.high + places_[i] * stride, run.low + places_[i] * stride,
                                      1, stride, queries[query], block_scales_ + i, &cosines_[i]);
                }
            } else {
                kernels.scan_int8(run.high, run.low, count, stride, queries[query], block_scales_,
                                  cosines_.data());
            }
        }
        bound.residual_slope = above(plan_.error_scale * error.slope * relative_margin);
        bound.error = above(plan_.error_scale * error.offset + static_cast<double>(bound.error));
    } else {
        const std::size_t dim = plan_.vectors.dim();
        const float* q = plan_.request.queries + query * dim;
        if (block.sparse) {
            for (std::size_t i = 0; i < count; ++i) {
                const float* row = plan_.vectors.fetch(block.begin + places_[i], fetched_.data());
                kernels.select_inner_products(q, row, 1, dim, &cosines_[i]);
            }
        } else {
            kernels.select_inner_products(q, block_vectors_, count, dim, cosines_.data());
        }
        bound.error += plan_.float32_error;
    }
    kernels::BoundColumns columns{
        cosines_.data(),  block_residuals_,
        block_vividness_, block_recency_,
        nullptr,          block.sparse || block.wanted == block.count ? nullptr : mask_.data()};
    if (!plan_.request.addends.empty()) {
        // Rounded up; rows without one keep their zeros.
        visit_addends(query, block, [&](std::size_t i, std::size_t number) {
            addend_values_[i] = above(plan_.request.addends[query].values[number]);
            columns.addends = addend_values_.data();
        });
    }
    const std::size_t found = kernels.bound_scores(
        columns, count, bound, above(selectors_[query].cut()), upper_.data(), above_.data());
    Survivors& survivors = survivors_[query];
    for (std::size_t f = 0; f < found; ++f) {
        const std::size_t i = above_[f];
        const std::size_t row = block.begin + place(block, i);
        const double addend =
            columns.addends != nullptr && addend_values_[i] != 0.0F ? addend_of(query, row) : 0.0;
        survivors.upper.push_back(upper_[i]);
        survivors.rows.push_back({row, addend, cosines_[i], block_residuals_[i],
                                  block_vividness_[i], block_recency_[i]});
    }
    if (survivors.rows.size() >= most_survivors) consider_survivors(query);
    if (columns.addends != nullptr) addend_values_.fill(0.0F);
}

void Selection::consider_survivors(std::size_t query) {
    auto& [rows, upper] = survivors_[query];
    CosineError error{0.0, static_cast<double>(plan_.float32_error)};
    if (plan_.queries) {
        error =
            plan_.coarse ? plan_.queries->coarse_error(query) : plan_.queries->fine_error(query);
        error.slope *= plan_.error_scale;
        error.offset *= plan_.error_scale;
    }
    const auto may_be_wanted = [&, &upper = upper](std::size_t i) {
        return static_cast<double>(upper[i]) >= selectors_[query].cut();
    };
    const auto consider_one = [&, &rows = rows](std::size_t i) {
        const Survivors::Row& each = rows[i];
        consider(query, each.row, static_cast<double>(each.cosine),
                 error.slope * static_cast<double>(each.residual) + error.offset, plan_.coarse,
                 each.addend, each.vividness, each.recency);
    };
    const auto place_of_largest = active_kernels().place_of_largest;
    for (std::size_t first = std::min({rows.size(), plan_.k, most_promising}); first > 0; --first) {
        const std::size_t i = place_of_largest(upper.data(), upper.size());
        if (!may_be_wanted(i)) break;
        consider_one(i);
        upper[i] = -std::numeric_limits<float>::infinity();
    }
    std::size_t left = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
        if (!may_be_wanted(i)) continue;
        if (plan_.coarse) prefetch_low(rows[i].row);
        rows[left] = rows[i];
        upper[left++] = upper[i];
    }
    for (std::size_t i = 0; i < left; ++i) {
        if (may_be_wanted(i)) consider_one(i);
    }
    rows.clear();
    upper.clear();
}

void Selection::prefetch_columns(std::size_t row) const noexcept {
    if (plan_.bounds != nullptr) {
        __builtin_prefetch(plan_.bounds->vividness.data() + row);
        __builtin_prefetch(plan_.bounds->recency.data() + row);
    }
    if (plan_.request.sketch != nullptr) {
        const Sketch::Run run = plan_.request.sketch->run(row);
        __builtin_prefetch(run.scales);
        __builtin_prefetch(plan_.coarse ? run.residuals4 : run.residuals8);
        for (std::size_t byte = 0; byte < plan_.request.sketch->stride(); byte += 64) {
            __builtin_prefetch(run.high + byte);
        }
    }
}

void Selection::prefetch_low(std::size_t row) const noexcept {
    const Sketch::Run run = plan_.request.sketch->run(row);
    for (std::size_t byte = 0; byte < plan_.request.sketch->stride(); byte += 64) {
        __builtin_prefetch(run.low + byte);
    }
}

double Selection::addend_of(std::size_t query, std::size_t row) const {
    if (plan_.request.addends.empty()) return 0.0;
    const SparseAddends& addends = plan_.request.addends[query];
    const auto found = std::lower_bound(addends.rows.begin(), addends.rows.end(), row);
    if (found == addends.rows.end() || *found != row) return 0.0;
    return addends.values[static_cast<std::size_t>(found - addends.rows.begin())];
}

double Selection::upper_bound(double similarity, std::uint16_t vividness,
                              std::uint16_t recency) const {
    return fused_score(
        plan_.ramps, similarity + static_cast<double>(plan_.rounding),
        static_cast<double>(vividness) * static_cast<double>(plan_.bound.vividness_scale),
        static_cast<double>(recency) * static_cast<double>(plan_.bound.recency_scale));
}

void Selection::consider(std::size_t query, std::size_t row, double cosine, double error,
                         bool refine, double addend, std::uint16_t vividness,
                         std::uint16_t recency) {
    const auto& kernels = active_kernels();
    if (refine) {
        const Sketch& sketch = *plan_.request.sketch;
        const Sketch::Run run = sketch.run(row);
        float closer = 0.0F;
        kernels.scan_int8(run.high, run.low, 1, sketch.stride(), (*plan_.queries)[query],
                          run.scales, &closer);
        const CosineError bound = plan_.queries->fine_error(query);
        cosine = static_cast<double>(closer);
        error = plan_.error_scale *
                (bound.slope * static_cast<double>(run.residuals8[0]) + bound.offset);
    }
    error += plan_.error_offset;
    const double similarity = plan_.request.similarity_weight * cosine + addend;
    // The columns of a bonus lie far apart: most rows are refused before they are read.
    if (refine && upper_bound(similarity + error, vividness, recency) < selectors_[query].cut()) {
        return;
    }
    double vividness_bonus = 0.0;
    double recency_bonus = 0.0;
    kernels.bonus(plan_.columns, row, 1, plan_.laws, &vividness_bonus, &recency_bonus);
    selectors_[query].offer(
        row, fused_score(plan_.ramps, similarity - error, vividness_bonus, recency_bonus),
        fused_score(plan_.ramps, similarity + error, vividness_bonus, recency_bonus));
}

void Selection::scan_batch(const Block& block) {
    const std::size_t count = block.sparse ? block.wanted : block.count;
    for (std::size_t first = 0; first < count; first += BatchProducts::most_rows) {
        scan_sub_block(block, first, std::min(BatchProducts::most_rows, count - first));
    }
    // A row with an addend is looked at for itself; select_batch does not know of addends.
    for (std::size_t query = 0; query < addends_.size(); ++query) {
        visit_addends(query, block, [&](std::size_t i, std::size_t number) {
            // Codes of the largest bonus: this row is looked at whatever its own is.
            consider(query, block.begin + place(block, i), 0.0, 0.0, true,
                     plan_.request.addends[query].values[number], 0xFFFF, 0xFFFF);
        });
    }
}

void Selection::scan_sub_block(const Block& block, std::size_t first, std::size_t count) {
    const auto& kernels = active_kernels();
    const Sketch::Run run = plan_.request.sketch->run(block.begin);
    const CodedQueries& queries = *plan_.queries;
    const std::size_t query_count = plan_.request.query_count;
    if (block.sparse) {
        for (std::size_t i = 0; i < count; ++i) batch_->unpack(run, places_[first + i], 1, i);
    } else {
        batch_->unpack(run, first, count, 0);
    }
    batch_->start(count);

    // The bound without ramps; the slope is the largest of the batch, the offset each query's own.
    double slope = 0.0;
    for (std::size_t query = 0; query < query_count; ++query) {
        slope = std::max(slope, queries.coarse_error(query).slope);
    }
    std::array<float, BatchProducts::most_rows> base;
    std::array<float, BatchProducts::most_rows> scale;
    const float residual_slope = above(plan_.error_scale * slope * relative_margin);
    for (std::size_t i = 0; i < count; ++i) {
        const std::size_t j = first + i;
        const bool wanted = block.sparse || mask_[j] != 0;
        const float bonus = static_cast<float>(block_vividness_[j]) * plan_.bound.vividness_scale +
                            static_cast<float>(block_recency_[j]) * plan_.bound.recency_scale;
        scale[i] = wanted ? block_scales_[j] : 0.0F;
        base[i] = wanted ? residual_slope * block_residuals_[j] + bonus
                         : -std::numeric_limits<float>::infinity();
    }

    const std::size_t groups = (query_count + CodedQueries::lanes - 1) / CodedQueries::lanes;
    for (std::size_t group = 0; group < groups; ++group) {
        kernels::BatchLanes lanes;
        for (std::size_t lane = 0; lane < CodedQueries::lanes; ++lane) {
            const std::size_t query = group * CodedQueries::lanes + lane;
            if (query >= query_count) {
                BatchProducts::clear_lane(lanes, lane);
                continue;
            }
            // Above minus infinity, which is the score of a row that is not wanted.
            const float cut =
                std::max(below(selectors_[query].cut() -
                               plan_.error_scale * queries.coarse_error(query).offset -
                               static_cast<double>(plan_.rounding)),
                         std::numeric_limits<float>::lowest());
            batch_->set_lane(lanes, query, plan_.request.similarity_weight, cut);
        }
        const std::int32_t* products = batch_->of_group(group);
        const std::size_t hits =
            kernels.select_batch(products, count, scale.data(), base.data(), lanes, hits_.data());
        take_hits(group, first, hits, products, block);
    }
}

// The precise bound of each pair, with ramps; those above the cut are considered.
void Selection::take_hits(std::size_t group, std::size_t first, std::size_t hits,
                          const std::int32_t* products, const Block& block) {
    const CodedQueries& queries = *plan_.queries;
    for (std::size_t hit = 0; hit < hits; ++hit) {
        const std::size_t i = hits_[hit] / CodedQueries::lanes;
        const std::size_t query = group * CodedQueries::lanes + hits_[hit] % CodedQueries::lanes;
        const std::size_t j = first + i;
        const CosineError error = queries.coarse_error(query);
        const double cosine = batch_->cosine(query, products[hits_[hit]], block_scales_[j]);
        const double similarity =
            plan_.request.similarity_weight * cosine +
            plan_.error_scale *
                (error.slope * static_cast<double>(block_residuals_[j]) + error.offset);
        if (upper_bound(similarity, block_vividness_[j], block_recency_[j]) <
            selectors_[query].cut()) {
            continue;
        }
        const std::size_t row = block.begin + place(block, j);
        if (!plan_.request.addends.empty() &&
            std::binary_search(plan_.request.addends[query].rows.begin(),
                               plan_.request.addends[query].rows.end(), row)) {
            continue;  // looked at for itself
        }
        consider(query, row, 0.0, 0.0, true, 0.0, block_vividness_[j], block_recency_[j]);
    }
}

}  // namespace flashbulb
