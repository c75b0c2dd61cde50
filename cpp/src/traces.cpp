#include "flashbulb/traces.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <string>

#include "dispatch.hpp"
#include "flashbulb/thread_pool.hpp"
#include "parameters.hpp"

namespace flashbulb {

namespace {
using kernels::Ramp;
#include "kernels/laws.inl"

constexpr double seconds_per_day = 86400.0;

// Bounds of the bonus may be so much too large, as a share, before they are made anew. With the
// default constants that takes a quarter of an hour.
constexpr double looseness = 1e-3;

// What a law reads of a row.
constexpr std::size_t law_bytes = 7 * sizeof(double);

[[noreturn]] void refuse(std::size_t row, const char* what, double got) {
    throw std::invalid_argument("row " + std::to_string(row) + ": " + what + ", got " +
                                std::to_string(got));
}

void require_unit(std::size_t row, const char* what, double value) {
    if (!(value >= 0.0 && value <= 1.0)) refuse(row, what, value);
}

void require_finite(std::size_t row, const char* what, double value) {
    if (!std::isfinite(value)) refuse(row, what, value);
}

void require_finite_or_none(std::size_t row, const char* what, double value) {
    if (std::isinf(value)) refuse(row, what, value);
}

void validate(const Trace& trace, std::size_t row) {
    require_unit(row, "salience must be in [0, 1]", trace.salience);
    require_unit(row, "floor must be in [0, 1]", trace.floor);
    require_unit(row, "vividness must be in [0, 1]", trace.vividness);
    require_finite(row, "vividness_time must be finite epoch seconds", trace.vividness_time);
    require_finite(row, "created must be finite epoch seconds", trace.created);
    require_finite_or_none(row, "last_access must be epoch seconds or NaN", trace.last_access);
    require_finite_or_none(row, "last_strength_change must be epoch seconds or NaN",
                           trace.last_strength_change);
    if (trace.access_count < 0) {
        refuse(row, "access_count must be at least 0", static_cast<double>(trace.access_count));
    }
    const bool has_urgency = !std::isnan(trace.urgency);
    if (has_urgency) require_unit(row, "urgency must be in [0, 1] or NaN", trace.urgency);
    if (has_urgency != (trace.status != TaskStatus::not_a_task)) {
        refuse(row, "a task has an urgency and what is not a task has none", trace.urgency);
    }
}

constexpr auto last_id = std::numeric_limits<std::int64_t>::max();

std::int64_t id_after(std::int64_t id) noexcept { return id == last_id ? id : id + 1; }

void require_next_id(std::size_t row, std::int64_t id, std::int64_t next) {
    if (id >= next && id != last_id) return;
    throw std::invalid_argument("row " + std::to_string(row) + ": id " + std::to_string(id) +
                                " was used before or is out of order; expected at least " +
                                std::to_string(next) + " and below 2^63 - 1");
}

void require_length(std::size_t got, std::size_t expected) {
    if (got == expected) return;
    throw std::invalid_argument("expected " + std::to_string(expected) + " values, got " +
                                std::to_string(got));
}

void require_stored_flags(std::size_t row, unsigned flags) {
    constexpr unsigned kept = TraceTable::task | TraceTable::completed | TraceTable::pinned;
    const bool is_task = (flags & TraceTable::task) != 0;
    if ((flags & ~kept) == 0 && (is_task || (flags & TraceTable::completed) == 0)) return;
    refuse(row, "flags must be those of a task or none", flags);
}

// Where the strength of a trace starts from: never under its floor, and 1 if it is pinned.
double anchored(const Trace& trace) noexcept {
    return std::max(trace.pinned ? 1.0 : trace.vividness, trace.floor);
}

std::uint8_t flags_of(const Trace& trace) noexcept {
    unsigned flags = 0;
    if (trace.status != TaskStatus::not_a_task) flags |= TraceTable::task;
    if (trace.status == TaskStatus::completed) flags |= TraceTable::completed;
    if (trace.pinned) flags |= TraceTable::pinned;
    return static_cast<std::uint8_t>(flags);
}

// Rows of one call of a kernel, so that what it writes stays in the first cache level.
constexpr std::size_t block_rows = 256;

// Calls action(i) for every i with mask[i] != 0; eight zeros are passed over at once.
template <class Action>
void for_each_set(const std::uint8_t* mask, std::size_t count, Action&& action) {
    std::size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        std::uint64_t eight = 0;
        std::memcpy(&eight, mask + i, sizeof eight);
        if (eight == 0) continue;
        for (std::size_t each = i; each < i + 8; ++each) {
            if (mask[each] != 0) action(each);
        }
    }
    for (; i < count; ++i) {
        if (mask[i] != 0) action(i);
    }
}

template <class T>
void keep(Column<T>& column, const std::vector<std::size_t>& kept) {
    for (std::size_t target = 0; target < kept.size(); ++target) {
        column[target] = column[kept[target]];
    }
    column.resize(kept.size());
}

}  // namespace

TraceTable::TraceTable(const Policy& policy) : policy_(policy) { policy_.validate(); }

void TraceTable::append(std::span<const Trace> traces, std::span<const std::vector<TagId>> tags) {
    if (!tags.empty() && tags.size() != traces.size()) {
        throw std::invalid_argument("expected one tag set for each of " +
                                    std::to_string(traces.size()) + " rows, got " +
                                    std::to_string(tags.size()));
    }
    std::int64_t next = next_id_;
    std::size_t new_tags = 0;
    for (std::size_t i = 0; i < traces.size(); ++i) {
        validate(traces[i], i);
        require_next_id(i, traces[i].id, next);
        next = traces[i].id + 1;
        if (!tags.empty()) new_tags += tags[i].size();
    }
    // All memory is taken before the first column grows: a failed allocation changes nothing.
    const auto reserve = [&](auto& column, std::size_t more) {
        if (column.capacity() < column.size() + more) {
            column.reserve(std::max(column.size() + more, column.size() * 2));
        }
    };
    reserve(id_, traces.size());
    for (auto* column : {&salience_, &floor_, &vividness_, &vividness_time_, &created_,
                         &last_access_, &last_strength_change_, &urgency_, &decay_rate_,
                         &task_shift_, &bonus_salience_, &recency_time_}) {
        reserve(*column, traces.size());
    }
    reserve(access_count_, traces.size());
    reserve(flags_, traces.size());
    reserve(tag_bloom_, traces.size());
    reserve(tag_end_, traces.size());
    reserve(tag_pool_, new_tags);
    BonusBounds* const bounds = bounds_.present();
    if (bounds != nullptr) {
        reserve(bounds->vividness, traces.size());
        reserve(bounds->recency, traces.size());
    }

    for (std::size_t i = 0; i < traces.size(); ++i) {
        const Trace& trace = traces[i];
        id_.push_back(trace.id);
        salience_.push_back(trace.salience);
        floor_.push_back(trace.floor);
        vividness_.push_back(anchored(trace));
        vividness_time_.push_back(trace.vividness_time);
        created_.push_back(trace.created);
        last_access_.push_back(trace.last_access);
        last_strength_change_.push_back(trace.last_strength_change);
        urgency_.push_back(trace.urgency);
        access_count_.push_back(trace.access_count);
        flags_.push_back(flags_of(trace));
        if (tags.empty()) {
            tag_bloom_.push_back(0);
        } else {
            tag_bloom_.push_back(flashbulb::tag_bloom(tags[i]));
            tag_pool_.insert(tag_pool_.end(), tags[i].begin(), tags[i].end());
        }
        tag_end_.push_back(tag_pool_.size());
        decay_rate_.push_back(0.0);
        task_shift_.push_back(0.0);
        bonus_salience_.push_back(0.0);
        recency_time_.push_back(0.0);
        derive(id_.size() - 1);
    }
    if (bounds != nullptr) {
        bounds->vividness.resize(rows());
        bounds->recency.resize(rows());
        bound(rows() - traces.size(), traces.size(), *bounds);
    }
    live_ += traces.size();
    next_id_ = next;
}

TraceTable::TraceTable(const Policy& policy, TraceColumns columns, std::size_t tags)
    : TraceTable(policy) {
    const std::size_t count = columns.id.size();
    for (const auto* column : {&columns.salience, &columns.floor, &columns.vividness,
                               &columns.vividness_time, &columns.created, &columns.last_access,
                               &columns.last_strength_change, &columns.urgency}) {
        require_length(column->size(), count);
    }
    require_length(columns.access_count.size(), count);
    require_length(columns.flags.size(), count);
    require_length(columns.tag_count.size(), count);
    std::size_t pool = 0;  // below 2^64: each count is below 2^32, and so is their number
    for (const std::uint32_t each : columns.tag_count) pool += each;
    require_length(columns.tag_pool.size(), pool);
    for (const TagId tag : columns.tag_pool) {
        if (tag >= tags) {
            throw std::invalid_argument("expected tags below " + std::to_string(tags) + ", got " +
                                        std::to_string(tag));
        }
    }
    id_ = std::move(columns.id);
    salience_ = std::move(columns.salience);
    floor_ = std::move(columns.floor);
    vividness_ = std::move(columns.vividness);
    vividness_time_ = std::move(columns.vividness_time);
    created_ = std::move(columns.created);
    last_access_ = std::move(columns.last_access);
    last_strength_change_ = std::move(columns.last_strength_change);
    urgency_ = std::move(columns.urgency);
    access_count_ = std::move(columns.access_count);
    flags_ = std::move(columns.flags);
    tag_pool_ = std::move(columns.tag_pool);
    tag_bloom_.resize(count);
    tag_end_.resize(count);
    for (auto* column : {&decay_rate_, &task_shift_, &bonus_salience_, &recency_time_}) {
        column->resize(count);
    }
    std::size_t end = 0;
    for (std::size_t row = 0; row < count; ++row) tag_end_[row] = end += columns.tag_count[row];
    run_ranges(count, 2 * law_bytes, [&](std::size_t begin, std::size_t stop) {
        for (std::size_t row = begin; row < stop; ++row) {
            require_stored_flags(row, flags_[row]);
            const Trace stored = trace(row);
            validate(stored, row);
            require_next_id(row, stored.id, row == 0 ? 0 : id_after(id_[row - 1]));
            vividness_[row] = anchored(stored);
            tag_bloom_[row] = flashbulb::tag_bloom(this->tags(row));
            derive(row);
        }
    });
    live_ = count;
    next_id_ = count == 0 ? 0 : id_.back() + 1;
}

void TraceTable::replace(std::span<const std::size_t> rows, std::span<const Trace> traces) {
    require_length(traces.size(), rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
        validate(traces[i], i);
        if (rows[i] >= this->rows() || traces[i].id != id_[rows[i]] ||
            traces[i].created != created_[rows[i]]) {
            throw std::invalid_argument("row " + std::to_string(i) + ": memory " +
                                        std::to_string(traces[i].id) +
                                        " has another row or time of creation");
        }
    }
    for (std::size_t i = 0; i < rows.size(); ++i) {
        const std::size_t row = rows[i];
        const Trace& trace = traces[i];
        salience_[row] = trace.salience;
        floor_[row] = trace.floor;
        vividness_[row] = anchored(trace);
        vividness_time_[row] = trace.vividness_time;
        last_access_[row] = trace.last_access;
        last_strength_change_[row] = trace.last_strength_change;
        urgency_[row] = trace.urgency;
        access_count_[row] = trace.access_count;
        flags_[row] = static_cast<std::uint8_t>((flags_[row] & dead) | flags_of(trace));
        changed(row);
    }
}

void TraceTable::set_next_id(std::int64_t id) {
    if (id < next_id_) {
        throw std::invalid_argument("next id " + std::to_string(id) +
                                    " is below an id that was used; expected at least " +
                                    std::to_string(next_id_));
    }
    next_id_ = id;
}

void TraceTable::derive(std::size_t row) noexcept {
    unsigned flags = flags_[row];
    const bool marked = (flags & pinned) != 0 || salience_[row] >= policy_.flashbulb_threshold;
    flags = marked ? flags | flashbulb : flags & ~unsigned{flashbulb};
    flags_[row] = static_cast<std::uint8_t>(flags);
    const bool open = (flags & task) != 0 && (flags & completed) == 0;
    decay_rate_[row] =
        (flags & pinned) != 0 ? 0.0 : policy_.decay_rate(salience_[row]) / seconds_per_day;
    task_shift_[row] = open                       ? policy_.open_task_boost * urgency_[row]
                       : (flags & completed) != 0 ? -policy_.completed_task_penalty
                                                  : 0.0;
    bonus_salience_[row] =
        open ? std::max(salience_[row], policy_.open_task_salience * urgency_[row])
             : salience_[row];
    const double accessed = last_access_[row];
    recency_time_[row] = accessed > created_[row] ? accessed : created_[row];
}

void TraceTable::bound(std::size_t begin, std::size_t count, BonusBounds& bounds) const noexcept {
    active_kernels().bonus_bounds(law_columns(columns()), begin, count,
                                  law_parameters(policy_, bounds.from, 1.0, 1.0),
                                  bounds.vividness.data() + begin, bounds.recency.data() + begin);
}

// After a change of one row.
void TraceTable::changed(std::size_t row) noexcept {
    derive(row);
    if (BonusBounds* const bounds = bounds_.present()) bound(row, 1, *bounds);
}

std::shared_ptr<const BonusBounds> TraceTable::bonus_bounds(double now) const {
    // A factor that decays with rate r has lost less than a thousandth of itself after 0.001 / r.
    const double fastest = std::max(policy_.decay_rate(0.0), 1.0 / policy_.recency_days);
    const double patience = looseness * seconds_per_day / fastest;
    return bounds_.get(now, patience, [this](BonusBounds& bounds) {
        bounds.vividness.resize(rows());
        bounds.recency.resize(rows());
        run_ranges(rows(), law_bytes,
                   [&](std::size_t begin, std::size_t end) { bound(begin, end - begin, bounds); });
    });
}

std::optional<std::size_t> TraceTable::find(std::int64_t id) const noexcept {
    const auto place = std::lower_bound(id_.begin(), id_.end(), id);
    if (place == id_.end() || *place != id) return std::nullopt;
    const auto row = static_cast<std::size_t>(place - id_.begin());
    if (!is_live(row)) return std::nullopt;
    return row;
}

Trace TraceTable::trace(std::size_t row) const {
    const unsigned flags = flags_[row];
    return Trace{
        .id = id_[row],
        .salience = salience_[row],
        .floor = floor_[row],
        .vividness = vividness_[row],
        .vividness_time = vividness_time_[row],
        .created = created_[row],
        .last_access = last_access_[row],
        .last_strength_change = last_strength_change_[row],
        .urgency = urgency_[row],
        .access_count = access_count_[row],
        .status = (flags & task) == 0        ? TaskStatus::not_a_task
                  : (flags & completed) == 0 ? TaskStatus::open
                                             : TaskStatus::completed,
        .pinned = (flags & pinned) != 0,
    };
}

std::span<const TagId> TraceTable::tags(std::size_t row) const noexcept {
    const std::size_t begin = row == 0 ? 0 : tag_end_[row - 1];
    return {tag_pool_.data() + begin, tag_end_[row] - begin};
}

std::vector<std::size_t> TraceTable::live_rows() const {
    std::vector<std::size_t> result;
    result.reserve(live_);
    for (std::size_t row = 0; row < rows(); ++row) {
        if (is_live(row)) result.push_back(row);
    }
    return result;
}

double TraceTable::vividness(std::size_t row, double now, bool with_task) const noexcept {
    const double v = policy_.decay_law == DecayLaw::asymptotic
                         ? decayed<true>(vividness_[row], vividness_time_[row], decay_rate_[row],
                                         floor_[row], now)
                         : decayed<false>(vividness_[row], vividness_time_[row], decay_rate_[row],
                                          floor_[row], now);
    return with_task ? effective(v, task_shift_[row], floor_[row]) : v;
}

std::vector<double> TraceTable::all_vividness(double now) const {
    std::vector<double> result(rows());
    const auto& kernels = active_kernels();
    const auto laws = law_parameters(policy_, now, 0.0, 0.0);
    run_ranges(rows(), law_bytes, [&](std::size_t begin, std::size_t end) {
        kernels.vividness(law_columns(columns()), begin, end - begin, laws, result.data() + begin);
    });
    return result;
}

void TraceTable::all_bonuses(double now, double vividness_weight, double recency_weight,
                             std::span<double> vividness, std::span<double> recency) const {
    if (vividness.size() != rows() || recency.size() != rows()) {
        throw std::invalid_argument("expected two arrays of " + std::to_string(rows()) +
                                    " values, got " + std::to_string(vividness.size()) + " and " +
                                    std::to_string(recency.size()));
    }
    active_kernels().bonus(law_columns(columns()), 0, rows(),
                           law_parameters(policy_, now, vividness_weight, recency_weight),
                           vividness.data(), recency.data());
}

// The anchor never moves back in time: a call with an earlier `now` must not age it twice.
void TraceTable::anchor(std::size_t row, double vividness, double now) noexcept {
    vividness_[row] = vividness;
    vividness_time_[row] = std::max(vividness_time_[row], now);
}

bool TraceTable::strength_may_move(std::size_t row, double now) const noexcept {
    const double last = last_strength_change_[row];
    return std::isnan(last) || age_seconds(now, last) >= policy_.strength_interval_seconds;
}

void TraceTable::strengthen(std::size_t row, double gain, double now) noexcept {
    if (!strength_may_move(row, now)) return;
    anchor(row, std::min(vividness(row, now, false) + gain, 1.0), now);
    last_strength_change_[row] = now;
    changed(row);
}

void TraceTable::touch(std::size_t row, double now) noexcept {
    strengthen(row, policy_.access_boost * (1.0 + policy_.access_salience_gain * salience_[row]),
               now);
    ++access_count_[row];
    if (!(last_access_[row] > now)) last_access_[row] = now;
    changed(row);
}

bool TraceTable::suppress(std::size_t row, double cosine, double now) noexcept {
    const bool open_to_it = cosine > policy_.rif_similarity &&
                            salience_[row] <= policy_.rif_max_salience &&
                            (flags_[row] & pinned) == 0 && strength_may_move(row, now);
    if (!open_to_it) return false;
    const double v = vividness(row, now, false);
    anchor(row, std::max(v - policy_.rif_strength * cosine, floor_[row]), now);
    last_strength_change_[row] = now;
    changed(row);
    return true;
}

void TraceTable::complete(std::size_t row, double now) noexcept {
    if ((flags_[row] & completed) != 0) return;
    const double v = vividness(row, now, false);
    flags_[row] = static_cast<std::uint8_t>((flags_[row] | completed) & ~pinned);
    anchor(row, v, now);
    floor_[row] = policy_.floor_after_completion(floor_[row]);
    changed(row);
}

void TraceTable::pin(std::size_t row, double now) noexcept {
    flags_[row] = static_cast<std::uint8_t>(flags_[row] | pinned);
    anchor(row, 1.0, now);
    changed(row);
}

void TraceTable::unpin(std::size_t row, double now) noexcept {
    if ((flags_[row] & pinned) == 0) return;
    flags_[row] = static_cast<std::uint8_t>(flags_[row] & ~pinned);
    anchor(row, vividness_[row], now);
    changed(row);
}

void TraceTable::remove(std::size_t row) noexcept {
    if (!is_live(row)) return;
    flags_[row] = static_cast<std::uint8_t>(flags_[row] | dead);
    --live_;
}

void TraceTable::materialize_decay(double now) {
    // By blocks that stay in the first cache level; the anchors are read and written once.
    const auto parameters = law_parameters(policy_, now, 0.0, 0.0);
    const auto laws = law_columns(columns());
    std::array<double, block_rows> current{};
    for (std::size_t begin = 0; begin < rows(); begin += block_rows) {
        const std::size_t count = std::min(block_rows, rows() - begin);
        active_kernels().vividness(laws, begin, count, parameters, current.data());
        double* const vividness = vividness_.data() + begin;
        double* const time = vividness_time_.data() + begin;
        for (std::size_t i = 0; i < count; ++i) {
            vividness[i] = current[i];
            time[i] = std::max(time[i], now);
        }
    }
    bounds_.reset();
}

void TraceTable::set_policy(const Policy& policy) {
    policy.validate();
    policy_ = policy;
    for (std::size_t row = 0; row < rows(); ++row) derive(row);
    bounds_.reset();
}

std::vector<std::size_t> TraceTable::compact() {
    std::vector<std::size_t> kept = live_rows();
    bounds_.reset();
    Column<TagId> pool;
    Column<std::size_t> ends;
    ends.reserve(kept.size());
    for (const std::size_t row : kept) {
        const auto row_tags = tags(row);
        pool.insert(pool.end(), row_tags.begin(), row_tags.end());
        ends.push_back(pool.size());
    }
    tag_pool_ = std::move(pool);
    tag_end_ = std::move(ends);
    keep(id_, kept);
    for (auto* column : {&salience_, &floor_, &vividness_, &vividness_time_, &created_,
                         &last_access_, &last_strength_change_, &urgency_, &decay_rate_,
                         &task_shift_, &bonus_salience_, &recency_time_}) {
        keep(*column, kept);
    }
    keep(access_count_, kept);
    keep(flags_, kept);
    keep(tag_bloom_, kept);
    return kept;
}

bool TraceTable::has_tags(std::size_t row, std::span<const TagId> wanted) const noexcept {
    const auto own = tags(row);
    return std::all_of(wanted.begin(), wanted.end(), [&](TagId tag) {
        return std::find(own.begin(), own.end(), tag) != own.end();
    });
}

void TraceTable::filter_tags(std::size_t begin, std::size_t count, std::span<const TagId> wanted,
                             std::uint8_t* mask) const {
    active_kernels().filter_blooms(tag_bloom_.data() + begin, count, flashbulb::tag_bloom(wanted),
                                   mask);
    for_each_set(mask, count, [&](std::size_t i) {
        mask[i] = static_cast<std::uint8_t>(has_tags(begin + i, wanted));
    });
}

std::vector<std::size_t> TraceTable::rows_with_tags(std::span<const TagId> wanted) const {
    std::array<std::uint8_t, block_rows> mask{};
    std::vector<std::size_t> result;
    for (std::size_t begin = 0; begin < rows(); begin += block_rows) {
        const std::size_t count = std::min(block_rows, rows() - begin);
        active_kernels().filter_flags(flags_.data() + begin, count, dead, 0, mask.data());
        filter_tags(begin, count, wanted, mask.data());
        for_each_set(mask.data(), count, [&](std::size_t i) { result.push_back(begin + i); });
    }
    return result;
}

std::optional<std::size_t> TraceTable::newest_with_tags(std::span<const TagId> wanted) const {
    std::optional<std::size_t> newest;
    for (const std::size_t row : rows_with_tags(wanted)) {
        if (!newest || created_[row] >= created_[*newest]) newest = row;
    }
    return newest;
}

std::size_t TraceTable::memory_bytes() const noexcept {
    constexpr std::size_t times_and_strengths = 12;  // the columns of double
    constexpr std::size_t row_bytes = times_and_strengths * sizeof(double) +
                                      2 * sizeof(std::int64_t) +  // id, access count
                                      sizeof(std::uint8_t) +      // flags
                                      sizeof(std::uint64_t) +     // tag bloom
                                      sizeof(std::size_t) +       // end of the tags
                                      2 * sizeof(std::uint16_t);  // bounds of the bonus
    return rows() * row_bytes + tag_pool_.size() * sizeof(TagId);
}

TraceTable::Columns TraceTable::columns() const noexcept {
    return Columns{
        vividness_.data(),  vividness_time_.data(), decay_rate_.data(),   floor_.data(),
        task_shift_.data(), bonus_salience_.data(), recency_time_.data(), created_.data(),
        flags_.data(),      tag_bloom_.data(),      id_.data(),           salience_.data()};
}

}  // namespace flashbulb
