#include "flashbulb/partition.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <stdexcept>

#include "support.hpp"

namespace flashbulb {
namespace {

using testing::below;
using testing::Random;
using testing::random_rows;

using Lists = std::vector<std::uint32_t>;

// The lists of a plain vector that names one for each row.
void expect_is(const Partition& partition, const Lists& list_of_row) {
    ASSERT_EQ(partition.rows(), list_of_row.size());
    std::vector<Lists> members(partition.lists());
    for (std::size_t row = 0; row < list_of_row.size(); ++row) {
        members[list_of_row[row]].push_back(static_cast<std::uint32_t>(row));
    }
    for (std::size_t list = 0; list < partition.lists(); ++list) {
        const auto got = partition.members(list);
        EXPECT_EQ(Lists(got.begin(), got.end()), members[list]) << list;
    }
}

Lists random_lists(Random& random, std::size_t count, std::size_t lists) {
    Lists chosen(count);
    for (auto& list : chosen) list = static_cast<std::uint32_t>(below(random, lists));
    return chosen;
}

TEST(PartitionTest, RefusesWhatAreNoCentroids) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const float infinite = std::numeric_limits<float>::infinity();
    EXPECT_THROW(Partition({}, 3), std::invalid_argument);
    EXPECT_THROW(Partition({1.0F, 2.0F}, 0), std::invalid_argument);
    EXPECT_THROW(Partition({1.0F, 2.0F, 3.0F, 4.0F}, 3), std::invalid_argument);
    EXPECT_THROW(Partition({1.0F, nan}, 2), std::invalid_argument);
    EXPECT_THROW(Partition({1.0F, -infinite}, 1, Partition::Metric::l2), std::invalid_argument);
}

TEST(PartitionTest, IsEmptyAtFirst) {
    const std::vector<float> centroids = {1.0F, 2.0F, 3.0F, 4.0F, 5.0F, 6.0F};
    const Partition partition(centroids, 2);
    EXPECT_EQ(partition.dim(), 2U);
    EXPECT_EQ(partition.lists(), 3U);
    EXPECT_EQ(partition.centroids(), centroids);
    expect_is(partition, {});
}

TEST(PartitionTest, ABadListChangesNothing) {
    Partition partition({1.0F, 2.0F, 3.0F}, 1);
    partition.append(Lists{2, 0});
    EXPECT_THROW(partition.append(Lists{1, 0, 3, 2}), std::invalid_argument);
    expect_is(partition, {2, 0});
    partition.append(Lists{});
    partition.append(Lists{0, 1});
    expect_is(partition, {2, 0, 0, 1});
}

TEST(PartitionTest, CountsTheBytesOfItsRows) {
    Partition partition({1.0F, 2.0F}, 1);
    const std::size_t before = partition.memory_bytes();
    partition.append(Lists(1000, 1));
    EXPECT_GE(partition.memory_bytes(), before + 1000 * sizeof(std::uint32_t));
}

// Any order of changes, beside a vector that names the list of each row. `keep` may name rows that
// are in no list yet, and of those that are, few, many, all or none.
TEST(PartitionTest, ChangesAreThoseOfAPlainVector) {
    Random random(1);
    for (int round = 0; round < 200; ++round) {
        const std::size_t lists = 1 + below(random, 12);
        Partition partition(random_rows(random, lists, 3), 3);
        Lists list_of_row;
        for (int step = 0; step < 12; ++step) {
            SCOPED_TRACE(std::to_string(round) + ", " + std::to_string(step));
            switch (below(random, 4)) {
                case 0: {
                    const std::size_t count = below(random, list_of_row.size() + 3);
                    partition.truncate(count);
                    list_of_row.resize(std::min(count, list_of_row.size()));
                    break;
                }
                case 1: {
                    const std::size_t one_in = 1 + below(random, 4);
                    const std::size_t first = below(random, list_of_row.size() + 1);
                    std::vector<std::size_t> kept;
                    Lists left;
                    for (std::size_t row = first; row < list_of_row.size() + 5; ++row) {
                        if (below(random, one_in) != 0) continue;
                        kept.push_back(row);
                        if (row < list_of_row.size()) left.push_back(list_of_row[row]);
                    }
                    partition.keep(kept);
                    list_of_row = left;
                    break;
                }
                default: {
                    const Lists more = random_lists(random, below(random, 80), lists);
                    partition.append(more);
                    list_of_row.insert(list_of_row.end(), more.begin(), more.end());
                }
            }
            expect_is(partition, list_of_row);
        }
    }
}

class PartitionNearest : public testing::EverySimdLevel {};

// Lengths around every vector width. Random values differ by far more than float32 can be off.
TEST_P(PartitionNearest, ListsAreInTheOrderOfTheMetric) {
    Random random(2);
    for (const std::size_t dim : {1U, 2U, 7U, 8U, 16U, 17U, 33U, 100U, 384U}) {
        for (const std::size_t lists : {1U, 2U, 7U, 8U, 9U, 40U}) {
            SCOPED_TRACE(std::to_string(lists) + " lists of " + std::to_string(dim));
            const auto centroids = random_rows(random, lists, dim);
            const auto query = random_rows(random, 1, dim);
            for (const auto metric : {Partition::Metric::inner_product, Partition::Metric::l2}) {
                std::vector<double> badness(lists);
                for (std::size_t list = 0; list < lists; ++list) {
                    const float* centroid = centroids.data() + list * dim;
                    const double product =
                        testing::plain_inner_product(query.data(), centroid, dim);
                    badness[list] = -product;
                    if (metric == Partition::Metric::inner_product) continue;
                    badness[list] += testing::plain_inner_product(centroid, centroid, dim) / 2.0;
                }
                Lists expected(lists);
                std::iota(expected.begin(), expected.end(), 0U);
                std::sort(expected.begin(), expected.end(), [&](std::uint32_t a, std::uint32_t b) {
                    return badness[a] < badness[b];
                });
                const Partition partition(centroids, dim, metric);
                EXPECT_EQ(partition.nearest(query.data(), lists, 0), expected);
            }
        }
    }
}

TEST_P(PartitionNearest, EqualCentroidsComeInTheOrderOfTheirNumbers) {
    Random random(3);
    for (const std::size_t dim : {1U, 5U, 16U, 100U}) {
        const auto two = random_rows(random, 2, dim);
        const auto query = random_rows(random, 1, dim);
        std::vector<float> centroids;
        for (std::size_t list = 0; list < 30; ++list) {
            const auto from = two.begin() + static_cast<std::ptrdiff_t>(list % 3 == 1 ? dim : 0);
            centroids.insert(centroids.end(), from, from + static_cast<std::ptrdiff_t>(dim));
        }
        for (const auto metric : {Partition::Metric::inner_product, Partition::Metric::l2}) {
            const Partition partition(centroids, dim, metric);
            const Lists order = partition.nearest(query.data(), 30, 0);
            ASSERT_EQ(order.size(), 30U);
            const bool second_first = order[0] % 3 == 1;
            EXPECT_TRUE(
                std::is_sorted(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
                    const bool first_a = (a % 3 == 1) == second_first;
                    const bool first_b = (b % 3 == 1) == second_first;
                    return first_a != first_b ? first_a : a < b;
                }));
        }
    }
}

FLASHBULB_AT_EVERY_SIMD_LEVEL(PartitionNearest);

TEST(PartitionTest, NearestGivesTheLeastListsAndThoseThatHoldTheWantedRows) {
    // Ranked 3, 2, 1, 0; they hold 2, 0, 3 and 1 rows.
    Partition partition({1.0F, 2.0F, 3.0F, 4.0F}, 1);
    partition.append(Lists{1, 3, 0, 1, 3, 1});
    const float query = 1.0F;
    const auto nearest = [&](std::size_t least, std::size_t wanted) {
        return partition.nearest(&query, least, wanted);
    };
    EXPECT_EQ(nearest(0, 0), Lists{});
    EXPECT_EQ(nearest(1, 0), Lists{3});
    EXPECT_EQ(nearest(0, 1), Lists{3});
    EXPECT_EQ(nearest(0, 2), Lists{3});
    EXPECT_EQ(nearest(0, 3), (Lists{3, 2, 1}));
    EXPECT_EQ(nearest(2, 0), (Lists{3, 2}));
    EXPECT_EQ(nearest(2, 5), (Lists{3, 2, 1}));
    EXPECT_EQ(nearest(0, 6), (Lists{3, 2, 1, 0}));
    EXPECT_EQ(nearest(0, 1000), (Lists{3, 2, 1, 0}));
    EXPECT_EQ(nearest(1000, 0), (Lists{3, 2, 1, 0}));
}

// The largest inner product belongs to the longest centroid, the smallest distance to the nearest.
TEST(PartitionTest, TheMetricDecides) {
    const std::vector<float> centroids = {1.0F, 5.0F, -1.0F};
    const float query = 1.5F;
    EXPECT_EQ(Partition(centroids, 1).nearest(&query, 3, 0), (Lists{1, 0, 2}));
    EXPECT_EQ(Partition(centroids, 1, Partition::Metric::l2).nearest(&query, 3, 0),
              (Lists{0, 2, 1}));
}

}  // namespace
}  // namespace flashbulb
