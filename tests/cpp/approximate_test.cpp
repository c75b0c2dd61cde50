#include "flashbulb/approximate.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <stdexcept>

#include "support.hpp"

namespace flashbulb {
namespace {

using testing::below;
using testing::day;
using testing::expect_same_bits;
using testing::Random;
using testing::random_store;
using testing::random_subset;
using testing::start_of_time;
using testing::Store;
using testing::uniform;
using testing::unit_rows;

using Rows = std::vector<std::size_t>;

SearchRequest request_for(const std::vector<float>& queries, std::size_t dim, std::size_t k) {
    SearchRequest request;
    request.queries = queries.data();
    request.query_count = queries.size() / dim;
    request.k = k;
    request.now = start_of_time;
    return request;
}

// The first `listed` rows around centroids that are rows themselves.
Partition partition_of(Random& random, const Store& store, std::size_t listed, std::size_t lists,
                       Partition::Metric metric = Partition::Metric::inner_product) {
    Partition partition(testing::random_rows(random, lists, store.dim), store.dim, metric);
    std::vector<std::uint32_t> chosen(listed);
    for (std::size_t row = 0; row < listed; ++row) {
        chosen[row] = partition.nearest(store.rows.data() + row * store.dim, 1, 0).front();
    }
    partition.append(chosen);
    return partition;
}

SearchRequest alone(const SearchRequest& request, std::size_t dim, std::size_t query) {
    SearchRequest single = request;
    single.queries += query * dim;
    single.query_count = 1;
    if (!request.addends.empty()) single.addends = {request.addends[query]};
    return single;
}

std::size_t passing(const TraceTable& traces, const Filter& filter, const Rows& rows) {
    return static_cast<std::size_t>(std::count_if(rows.begin(), rows.end(), [&](std::size_t row) {
        return testing::plain_passes(traces, filter, row);
    }));
}

// The rows that a search of one query looks at, as the header says; they need not pass the filter.
Rows looked_at(const TraceTable& traces, const SearchRequest& request,
               const Approximation& approximation) {
    Rows all(traces.rows());
    std::iota(all.begin(), all.end(), std::size_t{0});
    if (!(request.similarity_weight > request.vividness_weight + request.recency_weight)) {
        return all;
    }
    const double share = static_cast<double>(passing(traces, request.filter, all)) /
                         static_cast<double>(traces.rows());
    const Filter unfiltered;
    const bool filters = traces.live() < traces.rows() || !request.filter.tags.empty() ||
                         request.filter.status || request.filter.allowed ||
                         request.filter.unknown_tag || request.filter.since != unfiltered.since ||
                         request.filter.until != unfiltered.until;
    std::vector<bool> wanted(traces.rows());
    const auto want = [&](const auto& rows) {
        for (const auto row : rows) wanted[row] = true;
    };
    if (const Partition* partition = approximation.partition; partition != nullptr) {
        std::size_t wanted_rows = approximation.wanted_rows;
        double least_share = 0.0;
        const auto listed = static_cast<double>(partition->rows());
        const double told = static_cast<double>(approximation.least_lists) * listed /
                            static_cast<double>(partition->lists());
        const double enough = std::max(static_cast<double>(wanted_rows), told);
        if (enough * 4.0 > listed) return all;
        if (filters) {
            const double more = 1.25 * enough / share;
            if (!(more * 4.0 <= listed)) return all;
            wanted_rows = static_cast<std::size_t>(more);
            least_share = share / 1.25;
        }
        Rows near;
        for (const std::uint32_t list :
             partition->nearest(request.queries, approximation.least_lists, wanted_rows)) {
            const auto members = partition->members(list);
            near.insert(near.end(), members.begin(), members.end());
        }
        if (static_cast<double>(passing(traces, request.filter, near)) <
            least_share * static_cast<double>(near.size())) {
            return all;
        }
        want(near);
        for (std::size_t row = partition->rows(); row < traces.rows(); ++row) wanted[row] = true;
    } else {
        const Rows candidates(approximation.candidates.begin(), approximation.candidates.end());
        if (filters &&
            passing(traces, request.filter, candidates) < approximation.least_candidates) {
            return all;
        }
        want(candidates);
    }
    for (const SparseAddends& addends : request.addends) want(addends.rows);
    want(vivid_rows(traces, request.now, request.vividness_weight, request.recency_weight));
    Rows rows;
    for (std::size_t row = 0; row < traces.rows(); ++row) {
        if (wanted[row]) rows.push_back(row);
    }
    return passing(traces, request.filter, rows) < std::min(request.k, traces.live()) ? all : rows;
}

// As `search` restricted to the rows that are looked at, whatever is scanned.
void expect_best_of_the_rows_looked_at(const VectorView& view, const TraceTable& traces,
                                       const SearchRequest& request,
                                       const Approximation& approximation) {
    Sketch sketch(view.dim());
    sketch.extend(view);
    const SearchResult result = search_nearby(view, traces, request, approximation);
    SearchRequest by_sketch = request;
    by_sketch.sketch = &sketch;
    for (const SearchPath path : {SearchPath::automatic, SearchPath::int8, SearchPath::int4}) {
        by_sketch.path = path;
        expect_same_bits(search_nearby(view, traces, by_sketch, approximation), result);
    }
    ASSERT_EQ(result.ids.size(), request.query_count * result.k);
    for (std::size_t query = 0; query < request.query_count; ++query) {
        SCOPED_TRACE("query " + std::to_string(query));
        SearchRequest single = alone(request, view.dim(), query);
        const SearchResult lonely = search_nearby(view, traces, single, approximation);
        Rows rows = looked_at(traces, single, approximation);
        std::erase_if(rows, [&](std::size_t row) {
            const auto& allowed = request.filter.allowed;
            return allowed && !std::binary_search(allowed->begin(), allowed->end(), row);
        });
        single.filter.allowed = rows;
        expect_same_bits(lonely, search(view, traces, single));
        ASSERT_EQ(lonely.k, result.k);
        for (std::size_t rank = 0; rank < result.k; ++rank) {
            const std::size_t at = query * result.k + rank;
            ASSERT_EQ(result.ids[at], lonely.ids[rank]) << rank;
            EXPECT_EQ(result.scores[at], lonely.scores[rank]);
            EXPECT_EQ(result.similarities[at], lonely.similarities[rank]);
            EXPECT_EQ(result.cosines[at], lonely.cosines[rank]);
            EXPECT_EQ(result.vividness_bonus[at], lonely.vividness_bonus[rank]);
            EXPECT_EQ(result.recency_bonus[at], lonely.recency_bonus[rank]);
        }
    }
}

Filter random_filter(Random& random, std::size_t rows) {
    Filter filter;
    if (below(random, 3) == 0) filter.tags = {static_cast<TagId>(below(random, 10))};
    if (below(random, 3) == 0) {
        filter.since = start_of_time - uniform(random, 0.0, 400.0 * day);
        if (below(random, 2) == 0) filter.time_exempt = random_subset(random, rows, 5);
    }
    if (below(random, 4) == 0) filter.until = start_of_time - uniform(random, 0.0, 100.0 * day);
    if (below(random, 4) == 0) filter.status = static_cast<TaskStatus>(below(random, 3));
    if (below(random, 3) == 0) filter.allowed = random_subset(random, rows, 1 + below(random, 9));
    return filter;
}

SparseAddends random_addends(Random& random, std::size_t rows) {
    SparseAddends addends;
    for (const std::size_t row : random_subset(random, rows, 90)) {
        addends.rows.push_back(row);
        addends.values.push_back(uniform(random, -0.5, 0.5));
    }
    return addends;
}

// The nearest IEEE half; below 2^-14, where halves are denser than needed here, a multiple of
// 2^-24.
std::uint16_t nearest_half(float value) {
    int exponent = 0;
    std::frexp(value, &exponent);
    // A half is a multiple of 2^(place - 11).
    const int place = value == 0.0F ? -13 : std::max(exponent, -13);
    const auto steps = static_cast<int>(std::lround(std::ldexp(std::abs(value), 11 - place)));
    const int bits = (place + 13) * 1024 + steps;  // 1024 steps carry into the exponent
    return static_cast<std::uint16_t>((std::signbit(value) ? 0x8000 : 0) | bits);
}

class Nearby : public testing::EverySimdLevel {};

// Lengths around every vector width, the word of 64 rows and the block of 256.
TEST_P(Nearby, IsTheBestOfTheListsForEveryShape) {
    Random random(1);
    std::size_t shape = 0;
    for (const std::size_t dim : {1U, 2U, 7U, 8U, 17U, 33U, 100U, 384U}) {
        for (const std::size_t count : {1U, 7U, 63U, 64U, 65U, 255U, 257U, 1000U}) {
            SCOPED_TRACE(std::to_string(count) + " rows of " + std::to_string(dim));
            Store store = random_store(random, count, dim, start_of_time);
            const auto queries = unit_rows(random, std::array{1U, 3U, 5U}[shape++ % 3], dim);
            const std::size_t listed = count - below(random, count / 4 + 1);
            const Partition partition = partition_of(random, store, listed, 1 + count / 20);
            for (const std::size_t k : {1U, 10U, 2000U}) {
                expect_best_of_the_rows_looked_at(store.view(), store.traces,
                                                  request_for(queries, dim, k),
                                                  {&partition, 1 + below(random, 3), k});
            }
        }
    }
}

TEST_P(Nearby, IsTheBestOfTheListsUnderFiltersAddendsAndWeights) {
    Random random(2);
    for (int round = 0; round < 100; ++round) {
        SCOPED_TRACE(round);
        Policy policy;
        if (round % 2 == 0) {  // ramps off
            policy.vividness_ramp_start = policy.vividness_ramp_end = -1.0;
            policy.recency_ramp_start = policy.recency_ramp_end = 0.5;
        }
        if (round % 3 == 0) policy.flashbulb_threshold = uniform(random, 0.5, 1.0);
        const std::size_t count = 1 + below(random, 1500);
        const std::size_t dim = 1 + below(random, 40);
        Store store =
            random_store(random, count, dim, start_of_time, policy, round % 5 == 0 ? 0.7 : 0.1);
        const auto queries = unit_rows(random, 1 + below(random, 4), dim);
        SearchRequest request = request_for(queries, dim, 1 + below(random, 20));
        request.similarity_weight = uniform(random, 0.2, 1.5);
        request.vividness_weight = below(random, 4) == 0 ? 0.0 : uniform(random, 0.0, 0.4);
        request.recency_weight = below(random, 4) == 0 ? 0.0 : uniform(random, 0.0, 0.4);
        if (round % 3 != 0) request.filter = random_filter(random, count);
        if (round % 4 < 2) {
            for (std::size_t query = 0; query < request.query_count; ++query) {
                request.addends.push_back(random_addends(random, count));
            }
        }
        const std::size_t listed = below(random, 3) == 0 ? below(random, count + 1) : count;
        const Partition partition = partition_of(
            random, store, listed, 1 + below(random, 40),
            below(random, 2) == 0 ? Partition::Metric::l2 : Partition::Metric::inner_product);
        expect_best_of_the_rows_looked_at(store.view({count / 3, count / 2}), store.traces, request,
                                          {&partition, below(random, 4), below(random, 60)});
    }
}

// More rows than a chunk of the sketch, and rows in no list that begin anywhere in one.
TEST_P(Nearby, SeveralChunksAreOnePass) {
    Random random(3);
    constexpr std::size_t dim = 16;
    const std::size_t count = 2 * Sketch::chunk_rows + 300;
    Store store = random_store(random, count, dim, start_of_time);
    const auto queries = unit_rows(random, 2, dim);
    for (const std::size_t listed : {Sketch::chunk_rows + 77, count}) {
        const Partition partition = partition_of(random, store, listed, 30);
        expect_best_of_the_rows_looked_at(store.view({listed / 2 + 3}), store.traces,
                                          request_for(queries, dim, 50), {&partition, 3, 0});
    }
    const auto query = unit_rows(random, 1, dim);
    SearchRequest request = request_for(query, dim, 50);
    request.filter.tags = {4};
    const Rows candidates = random_subset(random, count, 70);
    Approximation approximation;
    approximation.candidates = candidates;
    expect_best_of_the_rows_looked_at(store.view(), store.traces, request, approximation);
}

TEST_P(Nearby, IsTheBestOfTheCandidates) {
    Random random(4);
    for (int round = 0; round < 60; ++round) {
        SCOPED_TRACE(round);
        const std::size_t count = 1 + below(random, 900);
        const std::size_t dim = 1 + below(random, 40);
        Store store = random_store(random, count, dim, start_of_time);
        const auto query = unit_rows(random, 1, dim);
        SearchRequest request = request_for(query, dim, 1 + below(random, 20));
        if (round % 2 == 0) request.filter = random_filter(random, count);
        if (round % 3 == 0) request.addends.push_back(random_addends(random, count));
        const Rows candidates = random_subset(random, count, 1 + below(random, 30));
        Approximation approximation;
        approximation.candidates = candidates;
        approximation.least_candidates = below(random, 40);
        expect_best_of_the_rows_looked_at(store.view(), store.traces, request, approximation);
    }
}

TEST_P(Nearby, IsSearchWhereAllListsAreWanted) {
    Random random(5);
    constexpr std::size_t dim = 24;
    Store store = random_store(random, 1200, dim, start_of_time);
    const Partition partition = partition_of(random, store, 1150, 20);
    const auto queries = unit_rows(random, 3, dim);
    SearchRequest request = request_for(queries, dim, 25);
    for (const bool filters : {false, true}) {
        if (filters) request.filter.tags = {2};
        const SearchResult expected = search(store.view(), store.traces, request);
        const auto nearby = [&](std::size_t least, std::size_t wanted) {
            return search_nearby(store.view(), store.traces, request, {&partition, least, wanted});
        };
        expect_same_bits(nearby(20, 0), expected);
        expect_same_bits(nearby(1000, 0), expected);
        expect_same_bits(nearby(0, 1150), expected);
    }
}

TEST_P(Nearby, RowsOfFloat16AreReadWhereTheyLie) {
    Random random(6);
    constexpr std::size_t dim = 19;
    constexpr std::size_t count = 500;
    const Store store = random_store(random, count, dim, start_of_time);
    std::vector<std::uint16_t> halves;
    for (const float value : store.rows) halves.push_back(nearest_half(value));
    const VectorView view({Segment{halves.data(), 0, count}}, RowFormat{dim, Encoding::float16});
    const Partition partition = partition_of(random, store, count - 30, 12);
    const auto queries = unit_rows(random, 3, dim);
    SearchRequest request = request_for(queries, dim, 9);
    expect_best_of_the_rows_looked_at(view, store.traces, request, {&partition, 2, 0});
    request.filter.tags = {1};
    expect_best_of_the_rows_looked_at(view, store.traces, request, {&partition, 1, 0});
}

// Rows that are equal in everything lie in other lists; what is looked at comes by id.
TEST_P(Nearby, EqualRowsComeInTheOrderOfTheirIds) {
    Random random(7);
    constexpr std::size_t dim = 16;
    constexpr std::size_t count = 1000;
    Store store(dim, Policy{});
    const auto vector = unit_rows(random, 1, dim);
    std::vector<Trace> traces(count);
    std::vector<std::uint32_t> lists(count);
    for (std::size_t row = 0; row < count; ++row) {
        store.rows.insert(store.rows.end(), vector.begin(), vector.end());
        traces[row].id = static_cast<std::int64_t>(row * 2);
        traces[row].created = traces[row].vividness_time = start_of_time;
        lists[row] = row % 4 == 1 ? 0 : 1;
    }
    store.traces.append(traces, {});
    store.traces.remove(5);
    std::vector<float> centroids = vector;
    for (int other = 0; other < 9; ++other) {  // the lists of all but one are empty
        for (const float value : vector) centroids.push_back(-value);
    }
    Partition partition(centroids, dim);
    partition.append(lists);
    const SearchResult result =
        search_nearby(store.view(), store.traces, request_for(vector, dim, 4), {&partition, 1, 0});
    EXPECT_EQ(result.ids, (std::vector<std::int64_t>{2, 18, 26, 34}));
}

FLASHBULB_AT_EVERY_SIMD_LEVEL(Nearby);

// Far from the query, in a list that is not looked at, but as good as pinned or salient makes it.
TEST(NearbyTest, EveryFlashbulbOfTheExactResultIsThere) {
    Random random(8);
    constexpr std::size_t dim = 32;
    Policy policy;
    policy.vividness_ramp_end = policy.vividness_ramp_start;
    policy.recency_ramp_end = policy.recency_ramp_start;
    std::size_t flashbulbs = 0;
    for (int round = 0; round < 20; ++round) {
        Store store = random_store(random, 2000, dim, start_of_time, policy);
        const Partition partition = partition_of(random, store, 2000, 60);
        const auto query = unit_rows(random, 1, dim);
        SearchRequest request = request_for(query, dim, 20);
        request.vividness_weight = 0.6;
        const SearchResult exact = search(store.view(), store.traces, request);
        const SearchResult found =
            search_nearby(store.view(), store.traces, request, {&partition, 1, 0});
        EXPECT_TRUE(std::is_sorted(found.scores.begin(), found.scores.end(), std::greater<>()));
        for (const std::int64_t id : exact.ids) {
            const Trace trace = store.traces.trace(*store.traces.find(id));
            if (!trace.pinned && trace.salience < policy.flashbulb_threshold) continue;
            ++flashbulbs;
            EXPECT_EQ(std::count(found.ids.begin(), found.ids.end(), id), 1) << id;
        }
    }
    EXPECT_GT(flashbulbs, 100U);
}

// A row that became one later, is one by another policy, or is none any more.
TEST(NearbyTest, WhatIsAFlashbulbFollowsChanges) {
    Random random(9);
    constexpr std::size_t dim = 8;
    constexpr std::size_t count = 400;
    Store store(dim, Policy{});
    store.rows = unit_rows(random, count, dim);
    std::vector<Trace> traces(count);
    for (std::size_t row = 0; row < count; ++row) {
        traces[row].id = static_cast<std::int64_t>(row);
        traces[row].salience = row == 7 ? 0.6 : 0.1;
        traces[row].created = traces[row].vividness_time = start_of_time;
    }
    store.traces.append(traces, {});
    const auto flashbulbs = [&] { return vivid_rows(store.traces, start_of_time, 0.0, 0.0); };
    EXPECT_EQ(flashbulbs(), Rows{});
    store.traces.pin(300, start_of_time);
    EXPECT_EQ(flashbulbs(), Rows{300});
    Policy policy = store.traces.policy();
    policy.flashbulb_threshold = 0.6;
    store.traces.set_policy(policy);
    EXPECT_EQ(flashbulbs(), (Rows{7, 300}));
    store.traces.unpin(300, start_of_time);
    EXPECT_EQ(flashbulbs(), Rows{7});
    store.traces.remove(7);
    EXPECT_EQ(flashbulbs(), Rows{});
}

// At least a hundredth has the largest bonus, and if many have the same, none is taken for it.
TEST(NearbyTest, TheLargestBonusesAreVivid) {
    Random random(10);
    constexpr std::size_t count = 3000;
    Policy policy;
    policy.flashbulb_threshold = 1.0;
    Store store(4, policy);
    std::vector<Trace> traces(count);
    for (std::size_t row = 0; row < count; ++row) {
        traces[row].id = static_cast<std::int64_t>(row);
        traces[row].salience = uniform(random, 0.0, 0.9);
        traces[row].created = traces[row].vividness_time =
            start_of_time - uniform(random, 0.0, 300.0 * day);
    }
    store.traces.append(traces, {});
    std::vector<double> vividness(count), recency(count);
    store.traces.all_bonuses(start_of_time, 0.3, 0.1, vividness, recency);
    std::vector<double> bonus(count);
    for (std::size_t row = 0; row < count; ++row) bonus[row] = vividness[row] + recency[row];
    const Rows rows = vivid_rows(store.traces, start_of_time, 0.3, 0.1);
    EXPECT_GE(rows.size(), count / 100);
    EXPECT_LE(rows.size(), count / 20);
    double least = 1.0;
    for (const std::size_t row : rows) least = std::min(least, bonus[row]);
    for (std::size_t row = 0; row < count; ++row) {
        if (std::binary_search(rows.begin(), rows.end(), row)) continue;
        // A code is a bound: it may be a step of 0.4 / 65535 above, and a thousandth by decay.
        EXPECT_LT(bonus[row], least + 0.4 * 2e-3) << row;
    }

    for (std::size_t row = 0; row < count; ++row) store.traces.touch(row, start_of_time);
    EXPECT_EQ(vivid_rows(store.traces, start_of_time, 0.0, 0.1), Rows{});  // all are as recent
}

TEST(NearbyTest, LooksAtAllRowsForATimeBeforeAnEarlierSearch) {
    Random random(11);
    constexpr std::size_t dim = 16;
    Store store = random_store(random, 1500, dim, start_of_time);
    const Partition partition = partition_of(random, store, 1500, 50);
    const auto query = unit_rows(random, 1, dim);
    SearchRequest request = request_for(query, dim, 40);
    const auto nearby = [&] {
        return search_nearby(store.view(), store.traces, request, {&partition, 1, 0}).ids;
    };
    const auto exact = [&] { return search(store.view(), store.traces, request).ids; };
    EXPECT_NE(nearby(), exact());
    request.now -= day;
    EXPECT_EQ(nearby(), exact());
    request.now += 2.0 * day;
    EXPECT_NE(nearby(), exact());
}

TEST(NearbyTest, LooksAtAllRowsIfTheBonusMayCountAsMuchAsTheSimilarity) {
    Random random(12);
    constexpr std::size_t dim = 16;
    Store store = random_store(random, 1500, dim, start_of_time);
    const Partition partition = partition_of(random, store, 1500, 50);
    const auto query = unit_rows(random, 1, dim);
    SearchRequest request = request_for(query, dim, 40);
    request.similarity_weight = 0.5;
    request.vividness_weight = 0.25;
    request.recency_weight = 0.25;
    const SearchResult exact = search(store.view(), store.traces, request);
    expect_same_bits(search_nearby(store.view(), store.traces, request, {&partition, 1, 0}), exact);
}

// One query lies where its list holds enough, the other where it does not: each has the result
// that it would have alone, and k hits.
TEST(NearbyTest, AQueryThatFindsTooLittleLooksAtAllRows) {
    Random random(13);
    constexpr std::size_t dim = 12;
    constexpr std::size_t count = 2000;
    Store store = random_store(random, count, dim, start_of_time, {}, 0.0);
    std::vector<float> queries = unit_rows(random, 1, dim);
    for (std::size_t i = 0; i < dim; ++i) queries.push_back(-queries[i]);
    Partition partition(queries, dim);
    std::vector<std::uint32_t> lists(count, 0);
    lists[count / 2] = 1;
    partition.append(lists);
    expect_best_of_the_rows_looked_at(store.view(), store.traces, request_for(queries, dim, 700),
                                      {&partition, 1, 0});
}

TEST(NearbyTest, NothingPassesGivesAnEmptyResult) {
    Random random(14);
    Store store = random_store(random, 300, 4, start_of_time);
    const Partition partition = partition_of(random, store, 280, 5);
    const auto queries = unit_rows(random, 2, 4);
    SearchRequest request = request_for(queries, 4, 5);
    const auto found = [&] {
        return search_nearby(store.view(), store.traces, request, {&partition, 1, 0}).k;
    };
    request.filter.unknown_tag = true;
    EXPECT_EQ(found(), 0U);
    request.filter = {};
    request.filter.allowed = Rows{};
    EXPECT_EQ(found(), 0U);
    request.filter = {};
    request.filter.since = std::numeric_limits<double>::infinity();
    EXPECT_EQ(found(), 0U);
    request.filter = {};
    request.filter.until = -std::numeric_limits<double>::infinity();
    EXPECT_EQ(found(), 0U);
    request.filter = {};
    request.k = 0;
    EXPECT_EQ(found(), 0U);
    request.k = 5;
    request.query_count = 0;
    EXPECT_EQ(found(), 5U);  // hits that a query would have
    Store empty(4, Policy{});
    const Partition nothing({1.0F, 0.0F, 0.0F, 0.0F}, 4);
    request.query_count = 2;
    EXPECT_EQ(search_nearby(empty.view(), empty.traces, request, {&nothing, 1, 0}).k, 0U);
}

TEST(NearbyTest, RefusesWhatDoesNotFitTheStore) {
    Random random(15);
    Store store = random_store(random, 20, 4, start_of_time);
    const auto queries = unit_rows(random, 2, 4);
    const SearchRequest two = request_for(queries, 4, 5);
    const SearchRequest one = alone(two, 4, 0);
    const auto refuses = [&](const SearchRequest& request, const Approximation& approximation) {
        EXPECT_THROW((void)search_nearby(store.view(), store.traces, request, approximation),
                     std::invalid_argument);
    };
    const Partition other_dim({1.0F, 2.0F, 3.0F}, 3);
    refuses(two, {&other_dim});
    Partition more_rows({1.0F, 0.0F, 0.0F, 0.0F}, 4);
    more_rows.append(std::vector<std::uint32_t>(21, 0));
    refuses(two, {&more_rows});
    more_rows.truncate(20);
    EXPECT_EQ(search_nearby(store.view(), store.traces, two, {&more_rows}).k, 5U);

    const Rows candidates = {2, 7, 11};
    Approximation by_candidates;
    by_candidates.candidates = candidates;
    refuses(two, by_candidates);
    EXPECT_EQ(search_nearby(store.view(), store.traces, one, by_candidates).k, 5U);
    const Rows beyond = {2, 20};
    by_candidates.candidates = beyond;
    refuses(one, by_candidates);

    SearchRequest bad = two;
    bad.now = std::numeric_limits<double>::quiet_NaN();
    refuses(bad, {&more_rows});
}

}  // namespace
}  // namespace flashbulb
