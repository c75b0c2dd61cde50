// A search by several threads: it is split from the size on that pays, and the result has the same
// bits for any number of them.

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "flashbulb/thread_pool.hpp"
#include "selection.hpp"
#include "support.hpp"

namespace flashbulb {
namespace {

using testing::below;
using testing::expect_same_bits;
using testing::Random;
using testing::start_of_time;
using testing::Store;
using testing::ThreadsGuard;

constexpr std::size_t dim = 24;
constexpr std::size_t thread_counts[] = {2, 3, 8};

SearchRequest request_for(const std::vector<float>& queries, const Sketch* sketch) {
    SearchRequest request;
    request.queries = queries.data();
    request.query_count = queries.size() / dim;
    request.k = 10;
    request.now = start_of_time;
    request.sketch = sketch;
    return request;
}

// The traces repeat: what counts is where the rows are cut. Equal rows lie at both sides of a cut.
Store large_store(Random& random, std::size_t rows) {
    Store store(dim, Policy{});
    store.rows = testing::unit_rows(random, rows, dim);
    std::vector<Trace> traces;
    for (std::size_t row = 0; row < rows; ++row) {
        traces.push_back(row < 500 ? testing::random_trace(random, 0, start_of_time)
                                   : traces[row - 500]);
        traces[row].id = static_cast<std::int64_t>(row);
        if (row >= 500 && row % 5 == 4) {
            std::copy_n(store.rows.data() + (row - 500) * dim, dim, store.rows.data() + row * dim);
        }
    }
    store.traces.append(traces, {});
    for (std::size_t row = 0; row < rows; row += 11) store.traces.remove(row);
    return store;
}

void expect_same_for_any_number_of_threads(const VectorView& view, const TraceTable& traces,
                                           const SearchRequest& request) {
    const ThreadsGuard guard(1);
    const SearchResult expected = search(view, traces, request);
    for (const std::size_t count : thread_counts) {
        set_threads(count);
        SCOPED_TRACE(std::to_string(count) + " threads, " + std::to_string(view.rows()) + " rows");
        expect_same_bits(search(view, traces, request), expected);
    }
}

// From these sizes on the scans of three queries are split: 4 MB of rows, or of planes of a sketch.
constexpr std::size_t query_count = 3;
constexpr std::size_t split_bytes = std::size_t{4} << 20U;
constexpr std::size_t rows_for(std::size_t row_bytes) {
    return (split_bytes + query_count * row_bytes - 1) / (query_count * row_bytes);
}
constexpr std::size_t split_rows = rows_for(4 * dim);

TEST(SearchThreadsTest, AScanIsSplitFromTheSizeOnThatPays) {
    Random random(1);
    const auto query = testing::unit_rows(random, query_count, dim);
    const SearchRequest request = request_for(query, nullptr);
    Store smaller = large_store(random, split_rows - 1);
    Store store = large_store(random, split_rows);
    const VectorView smaller_view = smaller.view();
    const VectorView view = store.view();
    const ThreadsGuard guard(1);
    using Cuts = std::vector<std::size_t>;
    EXPECT_EQ(SelectionPlan(view, store.traces, request).cuts(), (Cuts{0, split_rows}));
    for (const std::size_t count : thread_counts) {
        set_threads(count);
        EXPECT_EQ(SelectionPlan(smaller_view, smaller.traces, request).cuts(),
                  (Cuts{0, split_rows - 1}));
        const Cuts cuts = SelectionPlan(view, store.traces, request).cuts();
        ASSERT_EQ(cuts.size(), 9U);  // eight ranges of half a MB
        EXPECT_EQ(cuts.front(), 0U);
        EXPECT_EQ(cuts.back(), split_rows);
        for (std::size_t i = 1; i < cuts.size(); ++i) {
            EXPECT_LT(cuts[i - 1], cuts[i]);
            if (i + 1 < cuts.size()) {
                EXPECT_EQ(cuts[i] % block_rows, 0U);
            }
        }
    }
}

TEST(SearchThreadsTest, ScansOfRowsAroundTheSplit) {
    Random random(2);
    for (const std::size_t rows : {split_rows - 1, split_rows, split_rows + 257}) {
        Store store = large_store(random, rows);
        const auto query = testing::unit_rows(random, query_count, dim);
        expect_same_for_any_number_of_threads(store.view({1000, rows / 2}), store.traces,
                                              request_for(query, nullptr));
    }
}

TEST(SearchThreadsTest, ScansOfSketchesAroundTheSplit) {
    Random random(3);
    for (const auto& [path, planes] : {std::pair(SearchPath::int4, std::size_t{1}),
                                       std::pair(SearchPath::int8, std::size_t{2})}) {
        const std::size_t split = rows_for(64 * planes);
        for (const std::size_t rows : {split - 1, split, split + 257}) {
            Store store = large_store(random, rows);
            const VectorView view = store.view();
            Sketch sketch(dim);
            sketch.extend(view);
            const auto query = testing::unit_rows(random, query_count, dim);
            SearchRequest request = request_for(query, &sketch);
            request.path = path;
            {
                const ThreadsGuard guard(2);
                EXPECT_EQ(SelectionPlan(view, store.traces, request).cuts().size() > 2,
                          rows >= split);
            }
            expect_same_for_any_number_of_threads(view, store.traces, request);
        }
    }
}

TEST(SearchThreadsTest, BatchesFiltersListsAndAddends) {
    Random random(4);
    Store store = large_store(random, 15'000);
    const VectorView view = store.view();
    Sketch sketch(dim);
    sketch.extend(view);
    std::vector<std::size_t> half;
    for (std::size_t row = 0; row < view.rows(); ++row) {
        if (below(random, 2) == 0) half.push_back(row);
    }
    for (const std::size_t queries : {1U, 3U, 33U}) {
        const auto rows = testing::unit_rows(random, queries, dim);
        for (const Sketch* each :
             {static_cast<const Sketch*>(nullptr), static_cast<const Sketch*>(&sketch)}) {
            SearchRequest request = request_for(rows, each);
            request.k = 100;
            expect_same_for_any_number_of_threads(view, store.traces, request);
            for (std::size_t query = 0; query < queries; ++query) {
                request.addends.push_back({{query, 7'000, 14'999}, {0.5, -0.25, 0.7}});
            }
            request.filter.since = start_of_time - 200.0 * testing::day;
            request.filter.time_exempt = {0, 1, 7'000, 9'000};
            expect_same_for_any_number_of_threads(view, store.traces, request);
            request.filter.allowed = half;
            expect_same_for_any_number_of_threads(view, store.traces, request);
            request.filter.allowed = std::vector<std::size_t>{7, 14'998};
            request.k = 5;
            expect_same_for_any_number_of_threads(view, store.traces, request);
        }
    }
}

// The k best may all lie in the range of one thread, or be fewer than k.
TEST(SearchThreadsTest, TheBestOfOneRangeAreTheBestOfAll) {
    Random random(5);
    Store store = large_store(random, 2 * split_rows);
    const auto query = testing::unit_rows(random, query_count, dim);
    for (std::size_t row = 20'000; row < 20'040; ++row) {
        std::copy_n(query.data(), dim, store.rows.data() + row * dim);
    }
    SearchRequest request = request_for(query, nullptr);
    request.vividness_weight = 0.0;
    request.recency_weight = 0.0;
    expect_same_for_any_number_of_threads(store.view(), store.traces, request);
    const ThreadsGuard guard(3);
    const SearchResult result = search(store.view(), store.traces, request);
    for (std::size_t place = 0; place < request.k; ++place) {  // of the first query
        EXPECT_GE(result.ids[place], 20'000);
        EXPECT_LT(result.ids[place], 20'040);
    }
    request.k = 2 * split_rows;
    EXPECT_EQ(search(store.view(), store.traces, request).k, store.traces.live());
}

// Several callers at once, each with its own part of the threads.
TEST(SearchThreadsTest, SearchesBesideEachOther) {
    Random random(6);
    Store store = large_store(random, 2 * split_rows);
    const VectorView view = store.view();
    const auto query = testing::unit_rows(random, query_count, dim);
    const SearchRequest request = request_for(query, nullptr);
    const ThreadsGuard guard(3);
    const SearchResult expected = search(view, store.traces, request);
    std::vector<std::thread> callers;
    std::vector<SearchResult> results(4);
    for (SearchResult& result : results) {
        callers.emplace_back([&] {
            for (int round = 0; round < 5; ++round) result = search(view, store.traces, request);
        });
    }
    for (auto& caller : callers) caller.join();
    for (const SearchResult& result : results) expect_same_bits(result, expected);
}

}  // namespace
}  // namespace flashbulb
