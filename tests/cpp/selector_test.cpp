#include "selector.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "support.hpp"

namespace flashbulb {
namespace {

using testing::Random;

// What the selector promises: whatever the true scores are within the slack, every row that can
// be among the k best of them is a finalist.
TEST(FinalistSelectorTest, NeverDropsARowThatCouldBeAmongTheBest) {
    Random random(1);
    for (const std::size_t count : {0U, 1U, 10U, 3000U}) {
        for (const std::size_t k : {1U, 2U, 10U, 2000U}) {
            for (const double slack : {0.0, 1e-6, 0.01, 10.0}) {
                SCOPED_TRACE(std::to_string(count) + " rows, k " + std::to_string(k));
                std::vector<double> truth(count);
                FinalistSelector selector(k);
                for (std::size_t row = 0; row < count; ++row) {
                    // Few different values: many are equal.
                    truth[row] = static_cast<double>(testing::below(random, 50)) / 50.0;
                    const double score = truth[row] + testing::uniform(random, -slack, slack);
                    selector.offer(row, score - slack, score + slack);
                }
                const auto finalists = selector.finalists();
                EXPECT_TRUE(std::is_sorted(finalists.begin(), finalists.end()));
                EXPECT_EQ(std::adjacent_find(finalists.begin(), finalists.end()), finalists.end());
                EXPECT_GE(finalists.size(), std::min(k, count));
                std::vector<double> sorted = truth;
                std::sort(sorted.begin(), sorted.end(), std::greater<>{});
                const double kth = count <= k ? -1.0 : sorted[k - 1];
                for (std::size_t row = 0; row < count; ++row) {
                    if (truth[row] < kth) continue;
                    EXPECT_TRUE(std::binary_search(finalists.begin(), finalists.end(), row));
                }
            }
        }
    }
}

TEST(FinalistSelectorTest, DropsMostRowsWhenTheSlackIsSmall) {
    Random random(2);
    FinalistSelector selector(10);
    for (std::size_t row = 0; row < 100'000; ++row) {
        const double score = testing::uniform(random);
        selector.offer(row, score - 1e-6, score + 1e-6);
    }
    EXPECT_LT(selector.finalists().size(), 50U);
}

TEST(FinalistSelectorTest, MaskedRowsNeverEnter) {
    constexpr double lowest = -std::numeric_limits<double>::infinity();
    FinalistSelector selector(3);
    selector.offer(0, lowest, lowest);
    selector.offer(1, 0.5, 0.6);
    selector.offer(2, lowest, lowest);
    EXPECT_EQ(selector.finalists(), (std::vector<std::size_t>{1}));
}

TEST(FinalistSelectorTest, KOfZeroKeepsNothing) {
    FinalistSelector selector(0);
    selector.offer(0, 1e300, 1e300);
    EXPECT_TRUE(selector.finalists().empty());
}

}  // namespace
}  // namespace flashbulb
