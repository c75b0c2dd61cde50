// Passes over many rows by several threads: the same bits for any number of them.

#include <gtest/gtest.h>

#include <limits>

#include "flashbulb/suppression.hpp"
#include "support.hpp"

namespace flashbulb {
namespace {

using testing::Random;
using testing::start_of_time;
using testing::ThreadsGuard;

constexpr std::size_t thread_counts[] = {1, 2, 3, 8};
constexpr std::size_t dim = 40;  // 160 bytes a row: passes are split from 26,215 rows on

TEST(PassesTest, NormalizedRowsAndTheFirstBadOne) {
    Random random(1);
    for (const std::size_t rows : {13'000U, 13'200U, 30'000U}) {  // split from 13,108 rows on
        const auto given = testing::random_rows(random, rows, dim);
        std::vector<float> expected(given.size());
        const ThreadsGuard guard(1);
        ASSERT_EQ(normalize_rows(given.data(), rows, dim, expected.data()), rows);
        for (const std::size_t count : thread_counts) {
            set_threads(count);
            std::vector<float> out(given.size());
            ASSERT_EQ(normalize_rows(given.data(), rows, dim, out.data()), rows);
            EXPECT_EQ(out, expected);
            std::vector<float> bad = given;
            for (const std::size_t row : {rows - 1, std::size_t{9'000}, std::size_t{4'097}}) {
                bad[row * dim + 3] = std::numeric_limits<float>::infinity();
                ASSERT_EQ(normalize_rows(bad.data(), rows, dim, out.data()), row);
                EXPECT_TRUE(std::equal(out.begin(),
                                       out.begin() + static_cast<std::ptrdiff_t>(row * dim),
                                       expected.begin()));
            }
        }
    }
}

TEST(PassesTest, TheFirstRowWithoutUnitNorm) {
    Random random(2);
    constexpr std::size_t rows = 27'000;
    auto values = testing::unit_rows(random, rows, dim);
    const VectorView view(
        {{values.data(), 0, 10'000}, {values.data() + 10'000 * dim, 10'000, 17'000}}, dim);
    const ThreadsGuard guard(1);
    std::size_t expected = rows;
    for (const std::size_t row : {rows, std::size_t{26'999}, std::size_t{12'800}, std::size_t{1}}) {
        if (row < rows) values[row * dim] += 1.0F;
        expected = std::min(expected, row);
        for (const std::size_t count : thread_counts) {
            set_threads(count);
            EXPECT_EQ(first_row_not_unit(view, 1e-5), expected);
        }
    }
}

TEST(PassesTest, SketchesVividnessAndRelatedRows) {
    Random random(3);
    constexpr std::size_t rows = 80'000;  // laws read 56 bytes a row
    testing::Store store(dim, Policy{});
    store.rows = testing::unit_rows(random, rows, dim);
    std::vector<Trace> traces;
    for (std::size_t row = 0; row < rows; ++row) {
        traces.push_back(row < 500 ? testing::random_trace(random, 0, start_of_time)
                                   : traces[row - 500]);
        traces[row].id = static_cast<std::int64_t>(row);
        // One row in 300 is near one that is accessed below.
        if (row % 300 == 7) {
            for (std::size_t i = 0; i < dim; ++i) {
                store.rows[row * dim + i] =
                    store.rows[(row % 3) * dim + i] + 0.4F * store.rows[row * dim + i];
            }
        }
    }
    ASSERT_EQ(normalize_rows(store.rows.data(), rows, dim, store.rows.data()), rows);
    store.traces.append(traces, {});
    store.traces.remove(607);
    const VectorView view = store.view({30'000});
    const std::vector<std::size_t> accessed = {0, 1, 2, 1};

    const ThreadsGuard guard(1);
    Sketch one(dim);
    one.extend(view);
    const auto vividness = store.traces.all_vividness(start_of_time);
    const auto related = related_rows(view, store.traces, accessed, 0.7, nullptr);
    ASSERT_GT(related.size(), 200U);
    EXPECT_TRUE(
        std::is_sorted(related.begin(), related.end(),
                       [](const RelatedRow& a, const RelatedRow& b) { return a.row < b.row; }));
    const auto bounds = store.traces.bonus_bounds(start_of_time);
    for (const std::size_t count : thread_counts) {
        set_threads(count);
        Sketch sketch(dim);
        sketch.extend(view);
        ASSERT_EQ(sketch.rows(), rows);
        for (std::size_t row = 0; row < rows; ++row) {
            const Sketch::Run a = one.run(row);
            const Sketch::Run b = sketch.run(row);
            ASSERT_TRUE(std::equal(a.high, a.high + one.stride(), b.high)) << row;
            ASSERT_TRUE(std::equal(a.low, a.low + one.stride(), b.low)) << row;
            ASSERT_EQ(a.scales[0], b.scales[0]);
            ASSERT_EQ(a.residuals4[0], b.residuals4[0]);
            ASSERT_EQ(a.residuals8[0], b.residuals8[0]);
        }
        EXPECT_EQ(store.traces.all_vividness(start_of_time), vividness);
        TraceTable copy = store.traces;  // has no bounds yet
        const auto fresh = copy.bonus_bounds(start_of_time);
        ASSERT_NE(fresh, nullptr);
        EXPECT_EQ(fresh->vividness, bounds->vividness);
        EXPECT_EQ(fresh->recency, bounds->recency);
        for (const Sketch* each :
             {static_cast<const Sketch*>(nullptr), static_cast<const Sketch*>(&sketch)}) {
            const auto found = related_rows(view, store.traces, accessed, 0.7, each);
            ASSERT_EQ(found.size(), related.size());
            for (std::size_t i = 0; i < found.size(); ++i) {
                EXPECT_EQ(found[i].row, related[i].row);
                EXPECT_EQ(found[i].cosine, related[i].cosine);
            }
        }
    }
}

}  // namespace
}  // namespace flashbulb
