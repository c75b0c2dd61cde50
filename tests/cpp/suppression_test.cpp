#include "flashbulb/suppression.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "support.hpp"

namespace flashbulb {
namespace {

using testing::Random;
using testing::start_of_time;

// Rows in clusters, so that many cosines lie around 0.7.
testing::Store clustered_store(Random& random, std::size_t count, std::size_t dim) {
    testing::Store store = testing::random_store(random, count, dim, start_of_time);
    const auto centres = testing::unit_rows(random, 4, dim);
    for (std::size_t row = 0; row < count; ++row) {
        const double share = testing::uniform(random, 0.5, 3.0);
        float* values = store.rows.data() + row * dim;
        for (std::size_t i = 0; i < dim; ++i) {
            values[i] += static_cast<float>(share) * centres[(row % 4) * dim + i];
        }
        EXPECT_EQ(normalize_rows(values, 1, dim, values), 1U);
    }
    return store;
}

class Suppression : public testing::EverySimdLevel {};

TEST_P(Suppression, RelatedRowsAreAllRowsAboveTheThreshold) {
    Random random(1);
    for (const std::size_t dim : {3U, 16U, 100U}) {
        testing::Store store = clustered_store(random, 700, dim);
        const auto one = store.view();
        const auto split = store.view({1, 256, 300});
        for (const std::vector<std::size_t>& accessed :
             {std::vector<std::size_t>{}, {5}, {699, 0, 256, 257}}) {
            const auto found = related_rows(one, store.traces, accessed, 0.7);
            std::size_t next = 0;
            for (std::size_t row = 0; row < 700; ++row) {
                if (!store.traces.is_live(row)) continue;
                if (std::count(accessed.begin(), accessed.end(), row) > 0) continue;
                double largest = -2.0;
                for (const std::size_t other : accessed) {
                    largest = std::max(largest, inner_product(one.row(row), one.row(other), dim));
                }
                if (!(largest > 0.7)) continue;
                ASSERT_LT(next, found.size());
                EXPECT_EQ(found[next].row, row);
                EXPECT_EQ(found[next].cosine, largest);  // the one definition: the same bits
                ++next;
            }
            EXPECT_EQ(next, found.size());
            Sketch sketch(store.dim);
            sketch.extend(one);
            const auto sketched = related_rows(one, store.traces, accessed, 0.7, &sketch);
            ASSERT_EQ(sketched.size(), found.size());
            for (std::size_t i = 0; i < found.size(); ++i) {
                EXPECT_EQ(sketched[i].row, found[i].row);
                EXPECT_EQ(sketched[i].cosine, found[i].cosine);
            }
            const auto elsewhere = related_rows(split, store.traces, accessed, 0.7);
            ASSERT_EQ(elsewhere.size(), found.size());
            for (std::size_t i = 0; i < found.size(); ++i) {
                EXPECT_EQ(elsewhere[i].row, found[i].row);
                EXPECT_EQ(elsewhere[i].cosine, found[i].cosine);
            }
        }
    }
}

TEST_P(Suppression, MovesEachRelatedRowOnceByItsLargestCosine) {
    Random random(2);
    constexpr std::size_t dim = 12;
    testing::Store store = clustered_store(random, 400, dim);
    const auto view = store.view();
    const std::vector<std::size_t> accessed = {0, 1, 2, 3, 4, 5};
    const double now = start_of_time + 1000.0;
    const TraceTable before = store.traces;
    const auto related = related_rows(view, store.traces, accessed, 0.7);
    const auto moved = suppress(view, store.traces, accessed, std::nullopt, now);
    ASSERT_FALSE(moved.empty());
    EXPECT_TRUE(std::is_sorted(moved.begin(), moved.end()));
    for (std::size_t row = 0; row < 400; ++row) {
        const double was = before.vividness(row, now, false);
        const auto entry = std::find_if(related.begin(), related.end(),
                                        [&](const RelatedRow& each) { return each.row == row; });
        const Trace trace = before.trace(row);
        const bool open = entry != related.end() && trace.salience <= 0.7 && !trace.pinned;
        EXPECT_EQ(std::binary_search(moved.begin(), moved.end(), row), open) << row;
        const double expected = open ? std::max(was - 0.05 * entry->cosine, trace.floor) : was;
        EXPECT_EQ(store.traces.vividness(row, now, false), expected) << row;
    }
    EXPECT_TRUE(suppress(view, store.traces, accessed, std::nullopt, now + 60.0).empty());
}

TEST_P(Suppression, LooksOnlyAtTheRowsItIsGiven) {
    Random random(3);
    constexpr std::size_t dim = 8;
    testing::Store all = clustered_store(random, 300, dim);
    testing::Store some = all;
    const std::vector<std::size_t> accessed = {8, 9, 10, 11};
    const auto moved_all = suppress(all.view(), all.traces, accessed, std::nullopt, start_of_time);
    ASSERT_GT(moved_all.size(), 4U);
    const std::vector<std::size_t> given = {moved_all[3], moved_all[1], moved_all[3], 9};
    const auto moved = suppress(some.view(), some.traces, accessed, given, start_of_time);
    EXPECT_EQ(moved, (std::vector<std::size_t>{moved_all[1], moved_all[3]}));
    for (const std::size_t row : moved) {
        EXPECT_EQ(some.traces.trace(row).vividness, all.traces.trace(row).vividness);
    }
    const std::vector<std::size_t> nothing;
    EXPECT_TRUE(suppress(some.view(), some.traces, accessed, nothing, start_of_time).empty());
}

FLASHBULB_AT_EVERY_SIMD_LEVEL(Suppression);

}  // namespace
}  // namespace flashbulb
