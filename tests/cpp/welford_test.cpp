#include "flashbulb/welford.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>

#include "support.hpp"

namespace flashbulb {
namespace {

using testing::Random;

// Tolerance: Welford's and Chan's formulas lose a few ulp a step at most; two orders of one stream
// of some thousand values agree far better than this, relative to the spread of the values.
constexpr double tolerance = 1e-11;

TEST(MomentsTest, MatchesTheTwoPassFormulas) {
    Random random(1);
    std::vector<double> values;
    Moments moments;
    EXPECT_EQ(moments.variance(), 0.0);
    for (int i = 0; i < 1000; ++i) {
        values.push_back(1e6 + testing::uniform(random));
        moments.update(values.back());
    }
    double mean = 0.0;
    for (const double value : values) mean += value / 1000.0;
    double m2 = 0.0;
    for (const double value : values) m2 += (value - mean) * (value - mean);
    EXPECT_EQ(moments.count, 1000);
    EXPECT_NEAR(moments.mean, mean, 1e-8);
    EXPECT_NEAR(moments.variance(), m2 / 999.0, 1e-8);  // where sum of squares would lose it all
}

TEST(MomentsTest, OneValueHasNoVariance) {
    Moments moments;
    moments.update(3.0);
    EXPECT_EQ(moments.mean, 3.0);
    EXPECT_EQ(moments.variance(), 0.0);
}

TEST(MomentsTest, MergeIsTheWholeStream) {
    Random random(2);
    for (const int cut : {0, 1, 2, 50, 99, 100}) {
        Moments whole;
        Moments first;
        Moments second;
        for (int i = 0; i < 100; ++i) {
            const double value = testing::uniform(random, -5.0, 5.0);
            whole.update(value);
            (i < cut ? first : second).update(value);
        }
        first.merge(second);
        EXPECT_EQ(first.count, whole.count);
        EXPECT_NEAR(first.mean, whole.mean, tolerance);
        EXPECT_NEAR(first.m2, whole.m2, 100 * tolerance);
    }
}

TEST(CentroidTest, RefusesMomentsThatDoNotFitTogether) {
    EXPECT_THROW(Centroid(0), std::invalid_argument);
    EXPECT_THROW(Centroid(-1, {0.0}, {0.0}), std::invalid_argument);
    EXPECT_THROW(Centroid(1, {}, {}), std::invalid_argument);
    EXPECT_THROW(Centroid(1, {0.0, 1.0}, {0.0}), std::invalid_argument);
    const double not_a_number = std::numeric_limits<double>::quiet_NaN();
    EXPECT_THROW(Centroid(1, {not_a_number}, {0.0}), std::invalid_argument);
    EXPECT_THROW(Centroid(1, {0.0}, {not_a_number}), std::invalid_argument);
    EXPECT_THROW(Centroid(1, {0.0}, {-1.0}), std::invalid_argument);
}

class CentroidAtLevel : public testing::EverySimdLevel {};

void expect_close(const Centroid& a, const Centroid& b) {
    ASSERT_EQ(a.count(), b.count());
    ASSERT_EQ(a.dim(), b.dim());
    for (std::size_t i = 0; i < a.dim(); ++i) {
        EXPECT_NEAR(a.mean()[i], b.mean()[i], tolerance);
        EXPECT_NEAR(a.m2()[i], b.m2()[i], tolerance * static_cast<double>(a.count() + 1));
    }
}

TEST_P(CentroidAtLevel, EveryDimensionIsAScalarStream) {
    Random random(3);
    constexpr std::size_t dim = 37;
    const auto rows = testing::random_rows(random, 200, dim);
    Centroid centroid(dim);
    std::vector<Moments> streams(dim);
    for (std::size_t row = 0; row < 200; ++row) {
        centroid.update(rows.data() + row * dim);
        for (std::size_t i = 0; i < dim; ++i) {
            streams[i].update(static_cast<double>(rows[row * dim + i]));
        }
    }
    for (std::size_t i = 0; i < dim; ++i) {
        EXPECT_EQ(centroid.mean()[i], streams[i].mean);
        EXPECT_EQ(centroid.m2()[i], streams[i].m2);
    }
}

// The kernel takes four rows at a time and its caller 256 of them.
TEST_P(CentroidAtLevel, SeveralRowsAreOneAfterTheOther) {
    Random random(4);
    for (const std::size_t dim : {1U, 3U, 7U, 8U, 9U, 15U, 16U, 17U, 63U, 64U, 65U, 384U}) {
        for (const std::size_t count : {0U, 1U, 2U, 3U, 4U, 5U, 8U, 255U, 256U, 257U, 520U}) {
            SCOPED_TRACE(std::to_string(dim) + " x " + std::to_string(count));
            const auto rows = testing::random_rows(random, count + 3, dim);
            Centroid single(dim);
            Centroid several(dim);
            std::vector<double> expected;
            for (std::size_t row = 0; row < count + 3; ++row) {
                const float* vector = rows.data() + row * dim;
                expected.push_back(single.distance(vector));
                single.update(vector);
            }
            std::vector<double> distances(count + 3, -1.0);
            several.update(rows.data(), 3, distances.data());
            several.update(rows.data() + 3 * dim, count, distances.data() + 3);
            EXPECT_EQ(several.count(), single.count());
            EXPECT_EQ(several.mean(), single.mean());
            EXPECT_EQ(several.m2(), single.m2());
            EXPECT_EQ(distances, expected);
            Centroid without(dim);
            without.update(rows.data(), count + 3);
            EXPECT_EQ(without.mean(), single.mean());
            EXPECT_EQ(without.m2(), single.m2());
        }
    }
}

TEST_P(CentroidAtLevel, MergeIsTheWholeStreamInAnyOrder) {
    Random random(5);
    constexpr std::size_t dim = 19;
    const auto rows = testing::random_rows(random, 90, dim);
    Centroid whole(dim);
    Centroid a(dim);
    Centroid b(dim);
    whole.update(rows.data(), 90);
    a.update(rows.data(), 30);
    b.update(rows.data() + 30 * dim, 60);
    Centroid ab = a;
    ab.merge(b);
    expect_close(ab, whole);
    Centroid ba = b;
    ba.merge(a);
    expect_close(ba, whole);
    Centroid unchanged = whole;
    unchanged.merge(Centroid(dim));
    EXPECT_EQ(unchanged.mean(), whole.mean());
    Centroid from_empty(dim);
    from_empty.merge(whole);
    EXPECT_EQ(from_empty.mean(), whole.mean());
    EXPECT_EQ(from_empty.m2(), whole.m2());
    EXPECT_THROW(whole.merge(Centroid(dim + 1)), std::invalid_argument);
}

TEST_P(CentroidAtLevel, SavedMomentsGoOnBitForBit) {
    Random random(6);
    constexpr std::size_t dim = 24;
    const auto rows = testing::random_rows(random, 50, dim);
    Centroid centroid(dim);
    centroid.update(rows.data(), 40);
    Centroid loaded(centroid.count(), centroid.mean(), centroid.m2());
    for (std::size_t row = 40; row < 50; ++row) {
        centroid.update(rows.data() + row * dim);
        loaded.update(rows.data() + row * dim);
    }
    EXPECT_EQ(loaded.mean(), centroid.mean());
    EXPECT_EQ(loaded.m2(), centroid.m2());
}

TEST_P(CentroidAtLevel, DistanceIsTheEuclideanOne) {
    Random random(7);
    for (const std::size_t dim : {1U, 7U, 8U, 9U, 256U, 1000U}) {
        const auto rows = testing::random_rows(random, 3, dim);
        Centroid centroid(dim);
        EXPECT_EQ(centroid.distance(rows.data()), 0.0);  // nothing has been seen
        centroid.update(rows.data());
        centroid.update(rows.data() + dim);
        double squared = 0.0;
        for (std::size_t i = 0; i < dim; ++i) {
            const double delta = static_cast<double>(rows[2 * dim + i]) - centroid.mean()[i];
            squared += delta * delta;
        }
        EXPECT_NEAR(centroid.distance(rows.data() + 2 * dim), std::sqrt(squared), 1e-12 * 50.0);
    }
}

TEST_P(CentroidAtLevel, HasTheSameBitsAsAtTheBaseLevel) {
    Random random(8);
    constexpr std::size_t dim = 101;
    const auto rows = testing::random_rows(random, 500, dim);
    const auto run = [&](const std::string& level) {
        set_simd_level(level);
        Centroid centroid(dim);
        centroid.update(rows.data());
        centroid.update(rows.data() + dim, 499);
        return std::make_tuple(centroid.mean(), centroid.m2(), centroid.distance(rows.data()));
    };
    EXPECT_EQ(run(GetParam()), run("base"));
}

FLASHBULB_AT_EVERY_SIMD_LEVEL(CentroidAtLevel);

}  // namespace
}  // namespace flashbulb
