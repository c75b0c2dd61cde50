#include "flashbulb/search.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <stdexcept>

#include "support.hpp"

namespace flashbulb {
namespace {

using testing::below;
using testing::day;
using testing::Random;
using testing::random_store;
using testing::random_subset;
using testing::start_of_time;
using testing::Store;
using testing::uniform;
using testing::unit_rows;

// Tolerance: the plain score adds d exact products in another order (d * 2^-53, below 1.2e-13 for
// d = 1024) and takes the library's exp (a few ulp). Ids are compared exactly: rows that are not
// bit-identical differ by far more than that.
constexpr double tolerance = 5e-13;

constexpr double infinity = std::numeric_limits<double>::infinity();

SearchRequest request_for(const std::vector<float>& queries, std::size_t dim, std::size_t k) {
    SearchRequest request;
    request.queries = queries.data();
    request.query_count = queries.size() / dim;
    request.k = k;
    request.now = start_of_time;
    return request;
}

void expect_same_bits(const SearchResult& result, const SearchResult& expected) {
    EXPECT_EQ(result.k, expected.k);
    EXPECT_EQ(result.ids, expected.ids);
    EXPECT_EQ(result.scores, expected.scores);
    EXPECT_EQ(result.similarities, expected.similarities);
    EXPECT_EQ(result.cosines, expected.cosines);
    EXPECT_EQ(result.vividness_bonus, expected.vividness_bonus);
    EXPECT_EQ(result.recency_bonus, expected.recency_bonus);
}

void expect_is_the_plain_result(const VectorView& view, const TraceTable& traces,
                                const SearchRequest& request) {
    const SearchResult result = search(view, traces, request);
    Sketch sketch(view.dim());
    sketch.extend(view);
    for (const SearchPath path : {SearchPath::automatic, SearchPath::int8, SearchPath::int4}) {
        SearchRequest by_sketch = request;
        by_sketch.sketch = &sketch;
        by_sketch.path = path;
        expect_same_bits(search(view, traces, by_sketch), result);
    }
    for (std::size_t query = 0; query < request.query_count; ++query) {
        const auto expected = testing::plain_search(view, traces, request, query);
        ASSERT_EQ(result.k, expected.size());
        ASSERT_EQ(result.ids.size(), request.query_count * result.k);
        for (std::size_t rank = 0; rank < result.k; ++rank) {
            const std::size_t at = query * result.k + rank;
            ASSERT_EQ(result.ids[at], expected[rank].id) << "query " << query << " rank " << rank;
            EXPECT_NEAR(result.scores[at], expected[rank].score, tolerance);
            EXPECT_NEAR(result.similarities[at], expected[rank].similarity, tolerance);
            EXPECT_NEAR(result.cosines[at], expected[rank].cosine, tolerance);
            EXPECT_NEAR(result.vividness_bonus[at], expected[rank].vividness_bonus, tolerance);
            EXPECT_NEAR(result.recency_bonus[at], expected[rank].recency_bonus, tolerance);
            EXPECT_EQ(result.scores[at], (result.similarities[at] + result.vividness_bonus[at]) +
                                             result.recency_bonus[at]);
        }
    }
}

SparseAddends random_addends(Random& random, std::size_t rows) {
    SparseAddends addends;
    for (std::size_t row = 0; row < rows; ++row) {
        if (below(random, 7) != 0) continue;
        addends.rows.push_back(row);
        addends.values.push_back(uniform(random, -0.5, 0.5));
    }
    return addends;
}

Filter random_filter(Random& random, std::size_t rows) {
    Filter filter;
    if (below(random, 2) == 0) filter.tags = {static_cast<TagId>(below(random, 10))};
    if (below(random, 4) == 0) filter.tags.push_back(static_cast<TagId>(below(random, 10)));
    if (below(random, 2) == 0) filter.since = start_of_time - uniform(random, 0.0, 400.0 * day);
    if (below(random, 3) == 0) filter.until = start_of_time - uniform(random, 0.0, 100.0 * day);
    if (below(random, 3) == 0) filter.time_exempt = random_subset(random, rows, 5);
    if (below(random, 3) == 0) filter.status = static_cast<TaskStatus>(below(random, 3));
    if (below(random, 3) == 0) filter.allowed = random_subset(random, rows, 1 + below(random, 40));
    return filter;
}

// A unit row whose cosine to the query is the wanted (small) one, up to float32 rounding.
std::vector<float> row_of_cosine(Random& random, const std::vector<float>& query, double wanted) {
    const std::size_t dim = query.size();
    auto row = unit_rows(random, 1, dim);
    for (int pass = 0; pass < 2; ++pass) {  // the second takes away what normalising brought back
        const double excess = inner_product(query.data(), row.data(), dim) - wanted;
        for (std::size_t i = 0; i < dim; ++i) {
            row[i] -= static_cast<float>(excess * static_cast<double>(query[i]));
        }
        if (pass == 0 && normalize_rows(row.data(), 1, dim, row.data()) != 1) {
            ADD_FAILURE() << "a row without direction";
        }
    }
    return row;
}

class Search : public testing::EverySimdLevel {};

// Lengths around every vector width and the block of 256 rows.
TEST_P(Search, IsTheSortedFullScanForEveryShape) {
    Random random(1);
    std::size_t shape = 0;
    for (const std::size_t dim : {1U, 2U, 4U, 7U, 8U, 15U, 16U, 17U, 33U, 100U, 384U, 1024U}) {
        for (const std::size_t count : {0U, 1U, 7U, 8U, 255U, 256U, 257U, 1000U}) {
            SCOPED_TRACE(std::to_string(count) + " rows of " + std::to_string(dim));
            Store store = random_store(random, count, dim, start_of_time);
            // One by one, a batch on one plane, and one on both.
            const auto queries = unit_rows(random, std::array{3U, 5U, 18U}[shape++ % 3], dim);
            for (const std::size_t k : {1U, 10U, 2000U}) {
                expect_is_the_plain_result(store.view(), store.traces,
                                           request_for(queries, dim, k));
            }
        }
    }
}

TEST_P(Search, IsTheSortedFullScanUnderFiltersAddendsWeightsAndRamp) {
    Random random(2);
    for (int round = 0; round < 120; ++round) {
        SCOPED_TRACE(round);
        Policy policy;
        if (round % 3 == 0) {
            policy.vividness_ramp_start = uniform(random, -0.3, 0.2);
            policy.vividness_ramp_end = policy.vividness_ramp_start + uniform(random, 0.01, 0.4);
        } else if (round % 3 == 1) {  // off
            policy.vividness_ramp_start = policy.vividness_ramp_end = -1.0;
            policy.recency_ramp_start = policy.recency_ramp_end = 0.5;
        }
        if (round % 5 == 0) policy.decay_law = DecayLaw::asymptotic;
        const std::size_t count = 1 + below(random, 900);
        const std::size_t dim = 1 + below(random, 40);
        Store store =
            random_store(random, count, dim, start_of_time, policy, round % 4 == 0 ? 0.9 : 0.1);
        const std::size_t query_count = std::array{2U, 4U, 17U}[below(random, 3)];
        const auto queries = unit_rows(random, query_count, dim);
        SearchRequest request = request_for(queries, dim, 1 + below(random, 30));
        request.similarity_weight = uniform(random, -0.5, 1.5);
        request.vividness_weight = below(random, 4) == 0 ? 0.0 : uniform(random, 0.0, 2.0);
        request.recency_weight = below(random, 4) == 0 ? 0.0 : uniform(random, 0.0, 2.0);
        request.now += uniform(random, -30.0 * day, 30.0 * day);
        request.filter = random_filter(random, count);
        if (round % 4 == 1) {
            request.vividness_ramp_start = uniform(random, -0.3, 0.2);
            request.vividness_ramp_end = *request.vividness_ramp_start + uniform(random, 0.01, 0.4);
        }
        if (round % 2 == 0) {
            for (std::size_t query = 0; query < query_count; ++query) {
                request.addends.push_back(random_addends(random, count));
            }
        }
        expect_is_the_plain_result(store.view({count / 3, count / 2}), store.traces, request);
    }
}

TEST_P(Search, HasTheSameBitsAtEveryLevelSegmentationAndBatch) {
    Random random(3);
    constexpr std::size_t count = 3000;
    constexpr std::size_t dim = 48;
    Store store = random_store(random, count, dim, start_of_time);
    const auto queries = unit_rows(random, 5, dim);
    SearchRequest request = request_for(queries, dim, 40);
    request.filter.tags = {2};
    for (int query = 0; query < 5; ++query) {
        request.addends.push_back(random_addends(random, count));
    }
    set_simd_level("base");
    const SearchResult reference = search(store.view(), store.traces, request);
    set_simd_level(GetParam());
    testing::expect_same_bits(search(store.view(), store.traces, request), reference);
    testing::expect_same_bits(search(store.view({1, 2, 255, 1000, 2999}), store.traces, request),
                              reference);
    for (std::size_t query = 0; query < 5; ++query) {
        SearchRequest single = request;
        single.queries += query * dim;
        single.query_count = 1;
        single.addends = {request.addends[query]};
        const SearchResult result = search(store.view(), store.traces, single);
        ASSERT_EQ(result.k, reference.k);
        for (std::size_t rank = 0; rank < result.k; ++rank) {
            EXPECT_EQ(result.ids[rank], reference.ids[query * reference.k + rank]);
            EXPECT_EQ(result.scores[rank], reference.scores[query * reference.k + rank]);
        }
    }
}

TEST_P(Search, EqualRowsComeInTheOrderOfTheirIds) {
    Random random(4);
    constexpr std::size_t dim = 16;
    constexpr std::size_t count = 5000;
    Store store(dim, Policy{});
    const auto vector = unit_rows(random, 1, dim);
    std::vector<Trace> traces(count);
    for (std::size_t row = 0; row < count; ++row) {
        store.rows.insert(store.rows.end(), vector.begin(), vector.end());
        traces[row].id = static_cast<std::int64_t>(row * 2);
        traces[row].created = traces[row].vividness_time = start_of_time;
    }
    store.traces.append(traces, {});
    store.traces.remove(0);
    store.traces.remove(3);
    const SearchResult result = search(store.view(), store.traces, request_for(vector, dim, 4));
    EXPECT_EQ(result.ids, (std::vector<std::int64_t>{2, 4, 8, 10}));
    const SearchResult all = search(store.view(), store.traces, request_for(vector, dim, count));
    ASSERT_EQ(all.k, count - 2);
    EXPECT_TRUE(std::is_sorted(all.ids.begin(), all.ids.end()));
}

// Rows whose scores differ by less than float32 can see are still in their exact order.
TEST_P(Search, NearlyEqualRowsAreTold) {
    Random random(5);
    constexpr std::size_t dim = 64;
    constexpr std::size_t count = 2000;
    Store store(dim, Policy{});  // at similarity 1 the ramps are at 1
    const auto vector = unit_rows(random, 1, dim);
    std::vector<Trace> traces(count);
    for (std::size_t row = 0; row < count; ++row) {
        store.rows.insert(store.rows.end(), vector.begin(), vector.end());
        for (std::size_t i = 0; i < dim; ++i) {
            float& value = store.rows[row * dim + i];
            if (below(random, 2) == 0) value = std::nextafter(value, 1.0F);
        }
        traces[row].id = static_cast<std::int64_t>(row);
        traces[row].created = traces[row].vividness_time = start_of_time;
    }
    store.traces.append(traces, {});
    // A large weight lifts what float32 cannot see far above the fixed part of the slack.
    for (const double weight : {1.0, 1e6}) {
        SearchRequest request = request_for(vector, dim, 25);
        request.similarity_weight = weight;
        const SearchResult result = search(store.view(), store.traces, request);
        std::vector<std::pair<double, std::int64_t>> expected;
        for (std::size_t row = 0; row < count; ++row) {
            const double cosine = inner_product(vector.data(), store.rows.data() + row * dim, dim);
            // Salience 0, age 0: the bonus is the recency weight for every row.
            expected.emplace_back(-(weight * cosine + 0.1), static_cast<std::int64_t>(row));
        }
        std::sort(expected.begin(), expected.end());
        ASSERT_EQ(result.k, 25U);
        for (std::size_t rank = 0; rank < 25; ++rank) {
            EXPECT_EQ(result.ids[rank], expected[rank].second) << rank;
            EXPECT_EQ(result.scores[rank], -expected[rank].first) << rank;
        }
    }
}

// Adding a large value rounds the score to a coarse grid. These rows lie at the middle between two
// points of it, where an error far below the grid decides to which of them a score goes: the
// float32 pass must allow for a whole step.
TEST_P(Search, LargeAddendsStayExact) {
    Random random(6);
    constexpr std::size_t dim = 64;
    constexpr std::size_t count = 600;
    constexpr double addend = 1e12;
    constexpr double step = 0x1p-13;  // between doubles near 1e12
    for (int round = 0; round < 5; ++round) {
        Store store(dim, Policy{});
        const auto query = unit_rows(random, 1, dim);
        std::vector<Trace> traces(count);
        SparseAddends addends;
        const double middle = 0.5 * step;
        for (std::size_t row = 0; row < count; ++row) {
            const auto vector = row_of_cosine(random, query, middle + uniform(random, -1e-8, 1e-8));
            store.rows.insert(store.rows.end(), vector.begin(), vector.end());
            traces[row].id = static_cast<std::int64_t>(row);
            traces[row].created = traces[row].vividness_time = start_of_time;
            addends.rows.push_back(row);
            addends.values.push_back(addend);
        }
        store.traces.append(traces, {});
        SearchRequest request = request_for(query, dim, 20);
        request.addends = {addends};
        const SearchResult result = search(store.view(), store.traces, request);
        request.k = count;  // nothing to select
        const SearchResult all = search(store.view(), store.traces, request);
        ASSERT_NE(all.scores.front(), all.scores.back());
        ASSERT_EQ(result.k, 20U);
        for (std::size_t rank = 0; rank < 20; ++rank) EXPECT_EQ(result.ids[rank], all.ids[rank]);
    }
}

// On a ramp of 1e-6 an error of float32 moves the bonus by much more than itself.
TEST_P(Search, TheNarrowestRampStaysExact) {
    Random random(8);
    constexpr std::size_t dim = 48;
    Policy policy;
    policy.vividness_ramp_start = policy.recency_ramp_start = 0.0;
    policy.vividness_ramp_end = policy.recency_ramp_end = 1e-6;
    Store store(dim, policy);
    const auto query = unit_rows(random, 1, dim);
    std::vector<Trace> traces(600);
    for (std::size_t row = 0; row < 600; ++row) {
        const auto vector = row_of_cosine(random, query, uniform(random, 0.0, 5e-7));
        store.rows.insert(store.rows.end(), vector.begin(), vector.end());
        traces[row].id = static_cast<std::int64_t>(row);
        traces[row].salience = 1.0;
        traces[row].created = traces[row].vividness_time = start_of_time;
    }
    store.traces.append(traces, {});
    SearchRequest request = request_for(query, dim, 10);
    const SearchResult result = search(store.view(), store.traces, request);
    request.k = 600;
    const SearchResult all = search(store.view(), store.traces, request);
    ASSERT_EQ(result.k, 10U);
    for (std::size_t rank = 0; rank < 10; ++rank) {
        EXPECT_EQ(result.ids[rank], all.ids[rank]) << rank;
    }
}

FLASHBULB_AT_EVERY_SIMD_LEVEL(Search);

TEST(SearchTest, NothingPassesGivesAnEmptyResult) {
    Random random(9);
    Store store = random_store(random, 50, 4, start_of_time);
    const auto queries = unit_rows(random, 2, 4);
    SearchRequest request = request_for(queries, 4, 5);
    request.filter.unknown_tag = true;
    EXPECT_EQ(search(store.view(), store.traces, request).k, 0U);
    request.filter = {};
    request.filter.allowed = std::vector<std::size_t>{};
    EXPECT_EQ(search(store.view(), store.traces, request).k, 0U);
    request.filter = {};
    request.filter.since = infinity;
    EXPECT_EQ(search(store.view(), store.traces, request).k, 0U);
    request.filter = {};
    request.filter.until = -infinity;
    EXPECT_EQ(search(store.view(), store.traces, request).k, 0U);
    request.filter = {};
    request.k = 0;
    EXPECT_EQ(search(store.view(), store.traces, request).k, 0U);
    request.k = 5;
    request.query_count = 0;
    const SearchResult none = search(store.view(), store.traces, request);
    EXPECT_TRUE(none.ids.empty());
    EXPECT_EQ(none.k, 5U);  // hits that a query would have
}

TEST(SearchTest, ARemovedRowIsFoundByNoPath) {
    Random random(10);
    Store store = random_store(random, 300, 4, start_of_time, {}, 0.0);
    store.traces.remove(123);
    const std::vector<float> query(store.rows.begin() + 123 * 4, store.rows.begin() + 124 * 4);
    SearchRequest request = request_for(query, 4, 300);
    request.filter.allowed = std::vector<std::size_t>{122, 123, 124};
    request.filter.time_exempt = {123};
    request.addends = {SparseAddends{{123}, {100.0}}};
    const SearchResult result = search(store.view(), store.traces, request);
    EXPECT_EQ(result.k, 2U);
    EXPECT_EQ(std::count(result.ids.begin(), result.ids.end(), store.traces.trace(123).id), 0);
}

TEST(SearchTest, RefusesBadRequests) {
    Random random(11);
    Store store = random_store(random, 20, 4, start_of_time);
    const auto queries = unit_rows(random, 2, 4);
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const auto refuses = [&](auto change) {
        std::vector<float> own = queries;
        SearchRequest request = request_for(own, 4, 5);
        change(request, own);
        EXPECT_THROW((void)search(store.view(), store.traces, request), std::invalid_argument);
    };
    using Floats = std::vector<float>;
    refuses([&](SearchRequest& r, Floats&) { r.now = nan; });
    refuses([&](SearchRequest& r, Floats&) { r.now = infinity; });
    refuses([&](SearchRequest& r, Floats&) { r.similarity_weight = nan; });
    refuses([&](SearchRequest& r, Floats&) { r.vividness_weight = -0.1; });
    refuses([&](SearchRequest& r, Floats&) { r.vividness_weight = infinity; });
    refuses([&](SearchRequest& r, Floats&) { r.recency_weight = nan; });
    refuses([&](SearchRequest& r, Floats&) { r.filter.since = nan; });
    refuses([&](SearchRequest& r, Floats&) { r.filter.allowed = {{3, 3}}; });
    refuses([&](SearchRequest& r, Floats&) { r.filter.allowed = {{20}}; });
    refuses([&](SearchRequest& r, Floats&) { r.filter.time_exempt = {4, 2}; });
    refuses([&](SearchRequest& r, Floats&) { r.addends = {SparseAddends{}}; });
    refuses([&](SearchRequest& r, Floats&) { r.addends = {{{1}, {nan}}, {}}; });
    refuses([&](SearchRequest& r, Floats&) { r.addends = {{{1}, {1e13}}, {}}; });
    refuses([&](SearchRequest& r, Floats&) { r.similarity_weight = -1e13; });
    refuses([&](SearchRequest& r, Floats&) { r.addends = {{{1, 2}, {0.5}}, {}}; });
    refuses([&](SearchRequest& r, Floats&) { r.addends = {{}, {{20}, {0.5}}}; });
    refuses([&](SearchRequest&, Floats& q) { q[5] = std::numeric_limits<float>::infinity(); });
    const VectorView shorter({{store.rows.data(), 0, 19}}, 4);
    EXPECT_THROW((void)search(shorter, store.traces, request_for(queries, 4, 5)),
                 std::invalid_argument);
}

}  // namespace
}  // namespace flashbulb
