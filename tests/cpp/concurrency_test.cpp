// Searches beside each other and beside a writer, as an engine runs them: const calls under the
// shared lock, changes alone. The thread sanitizer looks for races; the results are checked too.

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <shared_mutex>
#include <thread>

#include "flashbulb/approximate.hpp"
#include "flashbulb/rw_lock.hpp"
#include "flashbulb/suppression.hpp"
#include "flashbulb/welford.hpp"
#include "support.hpp"

namespace flashbulb {
namespace {

using testing::Random;
using testing::start_of_time;

constexpr std::size_t dim = 24;

SearchRequest request_for(const std::vector<float>& query) {
    SearchRequest request;
    request.queries = query.data();
    request.query_count = 1;
    request.k = 10;
    request.now = start_of_time;
    return request;
}

TEST(ConcurrencyTest, SearchesBesideEachOtherGiveOneResult) {
    Random random(1);
    testing::Store store = testing::random_store(random, 2000, dim, start_of_time);
    const VectorView view = store.view();
    const auto query = testing::unit_rows(random, 1, dim);
    SearchRequest request = request_for(query);
    request.filter.tags = {3};
    const SearchResult expected = search(view, store.traces, request);
    std::atomic<int> different{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
        threads.emplace_back([&] {
            for (int round = 0; round < 20; ++round) {
                const SearchResult result = search(view, store.traces, request);
                if (result.ids != expected.ids || result.scores != expected.scores) ++different;
                if (store.traces.rows_with_tags(request.filter.tags).empty()) ++different;
                (void)store.traces.all_vividness(start_of_time);
                (void)related_rows(view, store.traces, std::vector<std::size_t>{1, 2}, 0.7);
            }
        });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(different, 0);
}

TEST(ConcurrencyTest, SearchesBesideAWriterSeeWholeStates) {
    Random random(2);
    testing::Store store = testing::random_store(random, 500, dim, start_of_time);
    const auto query = testing::unit_rows(random, 1, dim);
    const auto extra = testing::unit_rows(random, 1, dim);
    RwLock lock;
    std::atomic<bool> done{false};
    std::atomic<int> wrong{0};
    std::atomic<int> searches{0};
    std::vector<std::thread> readers;
    for (int i = 0; i < 3; ++i) {
        readers.emplace_back([&] {
            while (!done) {
                const std::shared_lock guard(lock);
                const VectorView view = store.view();
                const SearchRequest request = request_for(query);
                const SearchResult result = search(view, store.traces, request);
                if (result.k != std::min<std::size_t>(10, store.traces.live())) ++wrong;
                for (const std::int64_t id : result.ids) {
                    if (!store.traces.find(id)) ++wrong;
                }
                ++searches;
            }
        });
    }
    for (int round = 0; round < 150 || searches < 50; ++round) {
        const std::scoped_lock guard(lock);
        TraceTable& traces = store.traces;
        store.rows.insert(store.rows.end(), extra.begin(), extra.end());  // may move every row
        Trace trace = testing::random_trace(random, traces.next_id(), start_of_time);
        traces.append(std::vector<Trace>{trace}, {});
        const double now = start_of_time + round * 60.0;
        traces.touch(testing::below(random, traces.rows()), now);
        traces.pin(testing::below(random, traces.rows()), now);
        traces.remove(testing::below(random, traces.rows()));
        suppress(store.view(), traces, std::vector<std::size_t>{0}, std::nullopt, now);
        if (round % 10 == 0) traces.materialize_decay(now);
        if (round % 25 == 0) {
            const VectorView view = store.view();
            const auto kept = traces.compact();
            view.keep(kept);
            store.rows.resize(kept.size() * dim);
        }
    }
    done = true;
    for (auto& reader : readers) reader.join();
    EXPECT_EQ(wrong, 0);
}

// Whoever finds that another computes the bounds of the bonus looks at all rows meanwhile: a result
// is what is near, or exact, and after the first one it is always the former.
TEST(ConcurrencyTest, ApproximateSearchesBesideEachOther) {
    constexpr std::size_t query_count = 4;
    Random random(5);
    testing::Store store = testing::random_store(random, 6000, dim, start_of_time);
    const VectorView view = store.view();
    Partition partition(testing::random_rows(random, 60, dim), dim);
    std::vector<std::uint32_t> lists;
    for (std::size_t row = 0; row < 5900; ++row) {
        lists.push_back(partition.nearest(view.row(row), 1, 0).front());
    }
    partition.append(lists);
    const auto queries = testing::unit_rows(random, query_count, dim);
    SearchRequest request = request_for(queries);
    request.query_count = query_count;
    request.filter.tags = {3};
    Sketch sketch(dim);
    sketch.extend(view);
    SearchRequest by_sketch = request;
    by_sketch.sketch = &sketch;
    const testing::ThreadsGuard guard(3);
    for (int round = 0; round < 10; ++round) {
        const TraceTable traces = store.traces;  // its bounds are not there yet
        std::atomic<int> searches{0};
        std::vector<SearchResult> results(6);
        std::vector<std::thread> threads;
        for (SearchResult& result : results) {
            threads.emplace_back([&] {
                const bool sketched = searches++ % 2 == 0;
                result = search_nearby(view, traces, sketched ? by_sketch : request,
                                       {&partition, 1, 20});
            });
        }
        for (auto& thread : threads) thread.join();
        const SearchResult exact = search(view, traces, request);
        const SearchResult nearby = search_nearby(view, traces, request, {&partition, 1, 20});
        ASSERT_NE(nearby.ids, exact.ids);
        for (const SearchResult& result : results) {
            testing::expect_same_bits(result, result.ids == exact.ids ? exact : nearby);
        }
    }
}

TEST(ConcurrencyTest, TheLevelMayChangeWhileOthersSearch) {
    Random random(3);
    testing::Store store = testing::random_store(random, 1000, dim, start_of_time);
    const VectorView view = store.view();
    const auto query = testing::unit_rows(random, 1, dim);
    const SearchRequest request = request_for(query);
    const SearchResult expected = search(view, store.traces, request);
    const testing::LevelGuard guard;
    std::atomic<bool> done{false};
    std::thread switcher([&] {
        while (!done) {
            for (const auto& name : testing::level_names()) set_simd_level(name);
        }
    });
    for (int round = 0; round < 100; ++round) {
        testing::expect_same_bits(search(view, store.traces, request), expected);
    }
    done = true;
    switcher.join();
}

// Each search is split among threads of the pool, which the writer's changes must reach too.
TEST(ConcurrencyTest, SplitSearchesBesideAWriter) {
    constexpr std::size_t rows = 12'000;
    constexpr std::size_t query_count = 4;
    Random random(4);
    testing::Store store(dim, Policy{});
    store.rows = testing::unit_rows(random, rows, dim);
    std::vector<Trace> given;
    for (std::size_t row = 0; row < rows; ++row) {
        given.push_back(
            testing::random_trace(random, static_cast<std::int64_t>(row), start_of_time));
    }
    store.traces.append(given, {});
    const auto queries = testing::unit_rows(random, query_count, dim);
    const testing::ThreadsGuard guard(3);
    RwLock lock;
    std::atomic<bool> done{false};
    std::atomic<int> wrong{0};
    std::atomic<int> searches{0};
    std::vector<std::thread> readers;
    for (int i = 0; i < 2; ++i) {
        readers.emplace_back([&] {
            SearchRequest request = request_for(queries);
            request.query_count = query_count;
            while (!done) {
                const std::shared_lock shared(lock);
                const SearchResult result = search(store.view(), store.traces, request);
                for (const std::int64_t id : result.ids) {
                    if (!store.traces.find(id)) ++wrong;
                }
                if (result.k != request.k) ++wrong;
                ++searches;
            }
        });
    }
    for (int round = 0; round < 40 || searches < 20; ++round) {
        const std::scoped_lock alone(lock);
        const double now = start_of_time + round * 60.0;
        for (int i = 0; i < 20; ++i) {
            const std::size_t row = testing::below(random, store.traces.rows());
            store.traces.touch(row, now);
            store.traces.pin(testing::below(random, store.traces.rows()), now);
            store.rows[row * dim] = -store.rows[row * dim];
            store.traces.remove(testing::below(random, store.traces.rows()));
        }
    }
    done = true;
    for (auto& reader : readers) reader.join();
    EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace flashbulb
