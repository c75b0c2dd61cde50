#pragma once

// What several test files share: one fixture that runs a test at every SIMD level, random stores,
// and the score and the laws written once more, plainly, in double with the standard library.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "flashbulb/search.hpp"
#include "flashbulb/simd_level.hpp"
#include "flashbulb/thread_pool.hpp"
#include "flashbulb/traces.hpp"
#include "flashbulb/views.hpp"

namespace flashbulb::testing {

inline constexpr double day = 86400.0;
inline constexpr double start_of_time = 1.7e9;  // epoch seconds, a time like today's

inline std::vector<std::string> level_names() {
    std::vector<std::string> names;
    for (const SimdLevel level : supported_simd_levels()) names.emplace_back(to_string(level));
    return names;
}

/// Puts the level back that was active before.
class LevelGuard {
public:
    LevelGuard() : before_(to_string(active_simd_level())) {}
    ~LevelGuard() { set_simd_level(before_); }
    LevelGuard(const LevelGuard&) = delete;
    LevelGuard& operator=(const LevelGuard&) = delete;

private:
    std::string before_;
};

/// Sets the number of threads, and puts it back.
class ThreadsGuard {
public:
    explicit ThreadsGuard(std::size_t count) : before_(threads()) { set_threads(count); }
    ~ThreadsGuard() { set_threads(before_); }
    ThreadsGuard(const ThreadsGuard&) = delete;
    ThreadsGuard& operator=(const ThreadsGuard&) = delete;

private:
    std::size_t before_;
};

/// Runs its tests at every level that this machine supports.
class EverySimdLevel : public ::testing::TestWithParam<std::string> {
protected:
    void SetUp() override {
        set_simd_level(GetParam());
        ASSERT_EQ(to_string(active_simd_level()), GetParam());
    }

private:
    LevelGuard guard_;
};

inline std::string level_of(const ::testing::TestParamInfo<std::string>& info) {
    return info.param;
}

#define FLASHBULB_AT_EVERY_SIMD_LEVEL(suite)                                           \
    INSTANTIATE_TEST_SUITE_P(Level, suite,                                             \
                             ::testing::ValuesIn(::flashbulb::testing::level_names()), \
                             ::flashbulb::testing::level_of)

using Random = std::mt19937_64;

inline double uniform(Random& random, double low = 0.0, double high = 1.0) {
    return std::uniform_real_distribution<double>(low, high)(random);
}

inline std::size_t below(Random& random, std::size_t limit) {
    return std::uniform_int_distribution<std::size_t>(0, limit - 1)(random);
}

// One of so many of the row numbers below a limit, ascending.
inline std::vector<std::size_t> random_subset(Random& random, std::size_t rows,
                                              std::size_t one_in) {
    std::vector<std::size_t> subset;
    for (std::size_t row = 0; row < rows; ++row) {
        if (below(random, one_in) == 0) subset.push_back(row);
    }
    return subset;
}

inline std::vector<float> random_rows(Random& random, std::size_t count, std::size_t dim) {
    std::normal_distribution<float> normal;
    std::vector<float> rows(count * dim);
    for (float& value : rows) value = normal(random);
    return rows;
}

inline std::vector<float> unit_rows(Random& random, std::size_t count, std::size_t dim) {
    std::vector<float> rows = random_rows(random, count, dim);
    std::vector<float> out(rows.size());
    EXPECT_EQ(normalize_rows(rows.data(), count, dim, out.data()), count);
    return out;
}

/// Any valid trace: of every age, some of them pinned, tasks, or from the future.
inline Trace random_trace(Random& random, std::int64_t id, double now) {
    Trace trace;
    trace.id = id;
    trace.salience = uniform(random);
    trace.floor = below(random, 2) == 0 ? 0.0 : uniform(random, 0.0, 0.7);
    trace.vividness = uniform(random, trace.floor, 1.0);
    trace.created = now - uniform(random, -day, 400.0 * day);
    trace.vividness_time = trace.created + uniform(random, 0.0, 20.0 * day);
    if (below(random, 2) == 0) trace.last_access = trace.created + uniform(random, 0.0, 50.0 * day);
    trace.access_count = static_cast<std::int64_t>(below(random, 5));
    if (below(random, 4) == 0) {
        trace.urgency = uniform(random);
        trace.status = below(random, 2) == 0 ? TaskStatus::open : TaskStatus::completed;
    }
    trace.pinned = below(random, 16) == 0;
    return trace;
}

/// Vectors and traces together, as an engine holds them.
struct Store {
    Store(std::size_t dimensions, const Policy& policy) : dim(dimensions), traces(policy) {}

    std::size_t dim;
    std::vector<float> rows;
    TraceTable traces;

    /// The rows as one segment, or as several that end at the given rows.
    [[nodiscard]] VectorView view(std::vector<std::size_t> cuts = {}) {
        cuts.push_back(traces.rows());
        std::vector<Segment> segments;
        std::size_t first = 0;
        for (const std::size_t cut : cuts) {
            segments.push_back({rows.data() + first * dim, first, cut - first});
            first = cut;
        }
        return VectorView(std::move(segments), dim);
    }
};

/// A store with random traces, tags 0 .. 9, removed rows, and every fifth row equal to another
/// one in vector and trace.
inline Store random_store(Random& random, std::size_t count, std::size_t dim, double now,
                          const Policy& policy = {}, double removed_share = 0.1) {
    Store store(dim, policy);
    store.rows = unit_rows(random, count, dim);
    std::vector<Trace> traces;
    std::vector<std::vector<TagId>> tags;
    for (std::size_t row = 0; row < count; ++row) {
        const auto id = static_cast<std::int64_t>(3 * row + 2);  // with gaps
        Trace trace = random_trace(random, id, now);
        std::vector<TagId> own;
        for (TagId tag = 0; tag < 10; ++tag) {
            if (below(random, 3) == 0) own.push_back(tag);
        }
        if (row % 5 == 4) {
            const std::size_t twin = below(random, row);
            std::copy_n(store.rows.data() + twin * dim, dim, store.rows.data() + row * dim);
            trace = traces[twin];
            trace.id = id;
            own = tags[twin];
        }
        traces.push_back(trace);
        tags.push_back(own);
    }
    store.traces.append(traces, tags);
    for (std::size_t row = 0; row < count; ++row) {
        if (uniform(random) < removed_share) store.traces.remove(row);
    }
    return store;
}

// -- The definitions once more -------------------------------------------------------------------

inline double plain_inner_product(const float* a, const float* b, std::size_t dim) {
    double sum = 0.0;
    for (std::size_t i = 0; i < dim; ++i) {
        sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
    }
    return sum;
}

inline double plain_vividness(const Policy& policy, const Trace& trace, double now) {
    const double floor = trace.floor;
    const double anchor = std::max(trace.pinned ? 1.0 : trace.vividness, floor);
    if (trace.pinned) return anchor;
    const double days = std::max(now - trace.vividness_time, 0.0) / day;
    if (policy.decay_law == DecayLaw::asymptotic) {
        return floor + (anchor - floor) * std::exp(-policy.asymptotic_decay_rate_per_day * days);
    }
    const double rate =
        policy.decay_rate_per_day * (1.0 - policy.decay_salience_damping * trace.salience);
    return std::max(anchor * std::exp(-rate * days), floor);
}

inline double plain_effective(const Policy& policy, const Trace& trace, double now) {
    const double v = plain_vividness(policy, trace, now);
    switch (trace.status) {
        case TaskStatus::open:
            return std::min(v + policy.open_task_boost * trace.urgency, 1.0);
        case TaskStatus::completed:
            return std::max(v - policy.completed_task_penalty, trace.floor);
        case TaskStatus::not_a_task:
            break;
    }
    return v;
}

/// Factor of a bonus: from 0 at a similarity of `start` to 1 at `end`; equal values switch it off.
inline double plain_ramp(double start, double end, double similarity) {
    return end > start ? std::clamp((similarity - start) / (end - start), 0.0, 1.0) : 1.0;
}

struct PlainHit {
    std::int64_t id;
    double score;
    double similarity;
    double cosine;
    double vividness_bonus;
    double recency_bonus;
};

inline bool plain_passes(const TraceTable& traces, const Filter& filter, std::size_t row) {
    if (!traces.is_live(row) || filter.unknown_tag) return false;
    const auto own = traces.tags(row);
    const std::set<TagId> tags(own.begin(), own.end());
    for (const TagId tag : filter.tags) {
        if (!tags.contains(tag)) return false;
    }
    const Trace trace = traces.trace(row);
    const bool exempt = std::count(filter.time_exempt.begin(), filter.time_exempt.end(), row) > 0;
    if (!exempt && !(trace.created >= filter.since && trace.created < filter.until)) return false;
    if (filter.status && trace.status != *filter.status) return false;
    if (filter.allowed) {
        return std::count(filter.allowed->begin(), filter.allowed->end(), row) > 0;
    }
    return true;
}

/// The k best rows for one query: every row scored, then sorted.
inline std::vector<PlainHit> plain_search(const VectorView& view, const TraceTable& traces,
                                          const SearchRequest& request, std::size_t query) {
    const Policy& policy = traces.policy();
    std::vector<PlainHit> hits;
    for (std::size_t row = 0; row < traces.rows(); ++row) {
        if (!plain_passes(traces, request.filter, row)) continue;
        const Trace trace = traces.trace(row);
        PlainHit hit{};
        hit.id = trace.id;
        hit.cosine =
            plain_inner_product(request.queries + query * view.dim(), view.row(row), view.dim());
        double addend = 0.0;
        if (!request.addends.empty()) {
            const SparseAddends& given = request.addends[query];
            for (std::size_t i = 0; i < given.rows.size(); ++i) {
                if (given.rows[i] == row) addend = given.values[i];
            }
        }
        hit.similarity = request.similarity_weight * hit.cosine + addend;
        const double salience =
            trace.status == TaskStatus::open
                ? std::max(trace.salience, policy.open_task_salience * trace.urgency)
                : trace.salience;
        const double recency_time =
            trace.last_access > trace.created ? trace.last_access : trace.created;
        const double days = std::max(request.now - recency_time, 0.0) / day;
        hit.vividness_bonus =
            plain_ramp(request.vividness_ramp_start.value_or(policy.vividness_ramp_start),
                       request.vividness_ramp_end.value_or(policy.vividness_ramp_end),
                       hit.similarity) *
            request.vividness_weight * plain_effective(policy, trace, request.now) * salience;
        hit.recency_bonus =
            plain_ramp(policy.recency_ramp_start, policy.recency_ramp_end, hit.similarity) *
            request.recency_weight * std::exp(-days / policy.recency_days);
        hit.score = hit.similarity + hit.vividness_bonus + hit.recency_bonus;
        hits.push_back(hit);
    }
    std::sort(hits.begin(), hits.end(), [](const PlainHit& a, const PlainHit& b) {
        return a.score != b.score ? a.score > b.score : a.id < b.id;
    });
    hits.resize(std::min(hits.size(), request.k));
    return hits;
}

inline void expect_same_bits(const SearchResult& a, const SearchResult& b) {
    EXPECT_EQ(a.k, b.k);
    EXPECT_EQ(a.ids, b.ids);
    EXPECT_EQ(a.scores, b.scores);
    EXPECT_EQ(a.similarities, b.similarities);
    EXPECT_EQ(a.cosines, b.cosines);
    EXPECT_EQ(a.vividness_bonus, b.vividness_bonus);
    EXPECT_EQ(a.recency_bonus, b.recency_bonus);
}

}  // namespace flashbulb::testing
