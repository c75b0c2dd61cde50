#include "flashbulb/views.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>

#include "support.hpp"

namespace flashbulb {
namespace {

using testing::Random;

TEST(VectorViewTest, FindsRowsAcrossSegments) {
    std::vector<float> a(3 * 4), b(2 * 4);
    const VectorView view({{a.data(), 0, 3}, {nullptr, 3, 0}, {b.data(), 3, 2}}, 4);
    EXPECT_EQ(view.rows(), 5U);
    EXPECT_EQ(view.segments().size(), 2U);  // empty ones have no address and are left out
    EXPECT_EQ(view.row(0), a.data());
    EXPECT_EQ(view.row(2), a.data() + 8);
    EXPECT_EQ(view.row(3), b.data());
    EXPECT_EQ(view.row(4), b.data() + 4);
}

TEST(VectorViewTest, RefusesWhatDoesNotFitTogether) {
    std::vector<float> rows(8);
    EXPECT_THROW(VectorView({}, 0), std::invalid_argument);
    EXPECT_THROW(VectorView({{nullptr, 0, 2}}, 4), std::invalid_argument);
    EXPECT_THROW(VectorView({{rows.data(), 1, 2}}, 4), std::invalid_argument);
    EXPECT_THROW(VectorView({{rows.data(), 0, 1}, {rows.data(), 2, 1}}, 4), std::invalid_argument);
    EXPECT_THROW(VectorView({{rows.data(), 0, 2}, {rows.data(), 1, 1}}, 4), std::invalid_argument);
    EXPECT_EQ(VectorView({}, 4).rows(), 0U);
}

TEST(NormalizeRowsTest, GivesUnitRowsAndNamesTheFirstBadOne) {
    Random random(1);
    constexpr std::size_t dim = 33;
    std::vector<float> rows = testing::random_rows(random, 6, dim);
    rows[0] = 1e38F;  // far beyond what float32 can square
    for (std::size_t i = 0; i < dim; ++i) rows[dim + i] *= 1e-30F;
    std::vector<float> out(rows.size());
    EXPECT_EQ(normalize_rows(rows.data(), 6, dim, out.data()), 6U);
    EXPECT_EQ(first_row_not_unit(out.data(), 6, dim, 1e-6), 6U);

    std::vector<float> zero = rows;
    std::fill_n(zero.begin() + 2 * dim, dim, 0.0F);
    EXPECT_EQ(normalize_rows(zero.data(), 6, dim, out.data()), 2U);
    EXPECT_EQ(first_row_not_unit(zero.data(), 6, dim, 1e-6), 0U);
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
        std::vector<float> broken = rows;
        broken[4 * dim + 7] = bad;
        EXPECT_EQ(normalize_rows(broken.data(), 6, dim, out.data()), 4U);
    }
}

TEST(FirstRowNotUnitTest, KeepsToTheTolerance) {
    std::vector<float> rows = {1.0F, 0.0F, 1.0F + 5e-6F, 0.0F, 1.0F + 5e-5F, 0.0F};
    EXPECT_EQ(first_row_not_unit(rows.data(), 3, 2, 1e-5), 2U);
    EXPECT_EQ(first_row_not_unit(rows.data(), 3, 2, 1e-7), 1U);
    EXPECT_EQ(first_row_not_unit(rows.data(), 3, 2, 1e-3), 3U);
    rows[0] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_EQ(first_row_not_unit(rows.data(), 3, 2, 1e-3), 0U);
}

TEST(KeepRowsTest, MovesRowsToTheFrontAcrossSegments) {
    std::vector<float> a = {0, 0, 1, 1, 2, 2}, b = {3, 3, 4, 4};
    const VectorView view({{a.data(), 0, 3}, {b.data(), 3, 2}}, 2);
    keep_rows(view, {1, 2, 4});
    EXPECT_EQ(a, (std::vector<float>{1, 1, 2, 2, 4, 4}));
}

class InnerProduct : public testing::EverySimdLevel {};

// Tolerance: each of the d products is exact in float64, and each of the d sums is off by 2^-53
// of the running sum, which stays below 1.
TEST_P(InnerProduct, IsTheDoubleSum) {
    Random random(2);
    for (const std::size_t dim : {1U, 2U, 7U, 8U, 9U, 16U, 100U, 384U, 1024U}) {
        const auto rows = testing::unit_rows(random, 2, dim);
        const double expected = testing::plain_inner_product(rows.data(), rows.data() + dim, dim);
        EXPECT_NEAR(inner_product(rows.data(), rows.data() + dim, dim), expected,
                    static_cast<double>(dim) * 0x1p-52);
    }
}

TEST_P(InnerProduct, HasTheSameBitsAsAtTheBaseLevel) {
    Random random(3);
    for (std::size_t dim = 1; dim <= 130; ++dim) {
        const auto rows = testing::random_rows(random, 2, dim);
        set_simd_level(GetParam());
        const double here = inner_product(rows.data(), rows.data() + dim, dim);
        set_simd_level("base");
        EXPECT_EQ(here, inner_product(rows.data(), rows.data() + dim, dim)) << dim;
    }
}

FLASHBULB_AT_EVERY_SIMD_LEVEL(InnerProduct);

}  // namespace
}  // namespace flashbulb
