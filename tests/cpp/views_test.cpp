#include "flashbulb/views.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
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
    EXPECT_EQ(first_row_not_unit(VectorView({{out.data(), 0, 6}}, dim), 1e-6), 6U);

    std::vector<float> zero = rows;
    std::fill_n(zero.begin() + 2 * dim, dim, 0.0F);
    EXPECT_EQ(normalize_rows(zero.data(), 6, dim, out.data()), 2U);
    EXPECT_EQ(first_row_not_unit(VectorView({{zero.data(), 0, 6}}, dim), 1e-6), 0U);
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
        std::vector<float> broken = rows;
        broken[4 * dim + 7] = bad;
        EXPECT_EQ(normalize_rows(broken.data(), 6, dim, out.data()), 4U);
    }
}

TEST(FirstRowNotUnitTest, KeepsToTheTolerance) {
    std::vector<float> rows = {1.0F, 0.0F, 1.0F + 5e-6F, 0.0F, 1.0F + 5e-5F, 0.0F};
    const VectorView view({{rows.data(), 0, 3}}, 2);
    EXPECT_EQ(first_row_not_unit(view, 1e-5), 2U);
    EXPECT_EQ(first_row_not_unit(view, 1e-7), 1U);
    EXPECT_EQ(first_row_not_unit(view, 1e-3), 3U);
    rows[0] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_EQ(first_row_not_unit(view, 1e-3), 0U);
}

TEST(KeepRowsTest, MovesRowsToTheFrontAcrossSegments) {
    std::vector<float> a = {0, 0, 1, 1, 2, 2}, b = {3, 3, 4, 4};
    const VectorView view({{a.data(), 0, 3}, {b.data(), 3, 2}}, 2);
    view.keep(std::vector<std::size_t>{1, 2, 4});
    EXPECT_EQ(a, (std::vector<float>{1, 1, 2, 2, 4, 4}));
}

// -- encodings -----------------------------------------------------------------------------------

// A half by its definition: sign, 5 bits of exponent, 10 of fraction.
float half_by_definition(std::uint16_t half) {
    const int exponent = (half >> 10) & 0x1F;
    const int fraction = half & 0x3FF;
    double value =
        exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
    if (exponent == 31) {
        value = fraction == 0 ? std::numeric_limits<double>::infinity()
                              : std::numeric_limits<double>::quiet_NaN();
    }
    return static_cast<float>((half & 0x8000) != 0 ? -value : value);
}

class DecodedRows : public testing::EverySimdLevel {};

TEST_P(DecodedRows, AreEveryHalfExactly) {
    std::vector<std::uint16_t> halves(65536);
    for (std::size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<std::uint16_t>(i);
    // The second view reads each half in the scalar rest of a row.
    for (const std::size_t dim : {std::size_t{65536}, std::size_t{1}}) {
        const VectorView view({{halves.data(), 0, halves.size() / dim}}, {dim, Encoding::float16});
        std::vector<float> scratch(halves.size());
        const float* rows = view.fetch(0, view.rows(), scratch.data());
        ASSERT_EQ(rows, scratch.data());
        for (std::size_t i = 0; i < halves.size(); ++i) {
            const float expected = half_by_definition(halves[i]);
            if (std::isnan(expected)) {
                ASSERT_TRUE(std::isnan(rows[i])) << i;
            } else {
                ASSERT_EQ(rows[i], expected) << i;
                ASSERT_EQ(std::signbit(rows[i]), std::signbit(expected)) << i;
            }
        }
    }
}

TEST_P(DecodedRows, OfCodesRoundEachStep) {
    Random random(4);
    for (const std::size_t dim : {1U, 7U, 8U, 15U, 16U, 17U, 63U, 64U, 65U, 384U}) {
        RowFormat format{dim, Encoding::uint8};
        format.minimum = testing::random_rows(random, 1, dim);
        format.range = testing::random_rows(random, 1, dim);
        std::vector<std::uint8_t> codes(256 * dim);
        for (std::size_t i = 0; i < codes.size(); ++i) {
            codes[i] = static_cast<std::uint8_t>(i / dim);  // row c holds the code c
        }
        const VectorView view({{codes.data(), 0, 256}}, format);
        std::vector<float> scratch(256 * dim + 1, 7.0F);
        const float* rows = view.fetch(0, 256, scratch.data());
        EXPECT_EQ(scratch.back(), 7.0F);
        for (std::size_t i = 0; i < codes.size(); ++i) {
            // A product of float32 is exact in float64: rounding it is the float32 product.
            const float middle = static_cast<float>(codes[i]) + 0.5F;
            const float share = middle / 255.0F;
            const auto step = static_cast<float>(static_cast<double>(share) *
                                                 static_cast<double>(format.range[i % dim]));
            ASSERT_EQ(rows[i], format.minimum[i % dim] + step) << dim << ' ' << i;
        }
    }
}

TEST_P(DecodedRows, FromListsAreTheRowsAtTheirPlaces) {
    Random random(5);
    constexpr std::size_t dim = 19;
    std::vector<std::uint16_t> a(3 * dim), b(2 * dim);
    for (auto& half : a) half = static_cast<std::uint16_t>(testing::below(random, 0x7C00));
    for (auto& half : b) half = static_cast<std::uint16_t>(testing::below(random, 0x7C00));
    const auto offset = testing::random_rows(random, 1, dim);
    const std::vector<std::uint64_t> places = {(2ULL << 32U) + 1, 0, 2, 2ULL << 32U, 1};
    const VectorView view({{a.data(), 3}, {nullptr, 0}, {b.data(), 2, offset.data()}}, places,
                          {dim, Encoding::float16});
    ASSERT_EQ(view.rows(), places.size());
    EXPECT_FALSE(view.direct());
    EXPECT_EQ(view.run(1), 4U);
    std::vector<float> one(dim), all(places.size() * dim);
    ASSERT_EQ(view.fetch(0, places.size(), all.data()), all.data());
    for (std::size_t row = 0; row < places.size(); ++row) {
        const bool second = (places[row] >> 32U) != 0;
        const std::uint16_t* stored = (second ? b : a).data() + (places[row] & 0xFFU) * dim;
        const float* fetched = view.fetch(row, one.data());
        for (std::size_t i = 0; i < dim; ++i) {
            const float expected = half_by_definition(stored[i]) + (second ? offset[i] : 0.0F);
            ASSERT_EQ(fetched[i], expected);
            ASSERT_EQ(all[row * dim + i], expected);
        }
    }
    view.clear(0);
    EXPECT_TRUE(std::all_of(b.begin() + dim, b.end(), [](auto half) { return half == 0; }));
    EXPECT_NE(b[0], 0);
}

FLASHBULB_AT_EVERY_SIMD_LEVEL(DecodedRows);

TEST(VectorViewTest, FetchesInPlaceWhereItCan) {
    std::vector<float> a = {0, 0, 1, 1, 2, 2}, b = {3, 3, 4, 4}, scratch(10);
    const VectorView view({{a.data(), 0, 3}, {b.data(), 3, 2}}, 2);
    EXPECT_TRUE(view.direct());
    EXPECT_EQ(view.fetch(4, nullptr), b.data() + 2);
    EXPECT_EQ(view.fetch(0, 3, nullptr), a.data());
    EXPECT_EQ(view.run(1), 2U);
    EXPECT_EQ(view.fetch(2, 2, scratch.data()), scratch.data());
    EXPECT_EQ((std::vector<float>{scratch.begin(), scratch.begin() + 4}),
              (std::vector<float>{2, 2, 3, 3}));
    const std::vector<std::uint64_t> places = {4, 0};
    const VectorView scattered({{a.data(), 3}, {b.data(), 2}}, std::vector<std::uint64_t>{},
                               RowFormat{2});
    EXPECT_EQ(scattered.rows(), 0U);
    EXPECT_THROW(VectorView({{a.data(), 3}}, places, RowFormat{2}), std::invalid_argument);
    const std::vector<std::uint64_t> reversed = {2, 1};
    const VectorView back({{a.data(), 3}}, reversed, RowFormat{2});
    EXPECT_EQ(back.fetch(0, nullptr), a.data() + 4);
    EXPECT_FALSE(back.direct());
    EXPECT_THROW(back.keep(std::vector<std::size_t>{1}), std::invalid_argument);
}

TEST(VectorViewTest, RefusesAFormatThatIsNotWhole) {
    std::vector<std::uint8_t> codes(8);
    EXPECT_THROW(VectorView({{codes.data(), 0, 2}}, {4, Encoding::uint8}), std::invalid_argument);
    EXPECT_THROW(VectorView({{codes.data(), 0, 2}}, {4, Encoding::uint8, {1, 2, 3, 4}, {1}}),
                 std::invalid_argument);
    EXPECT_THROW(VectorView({{codes.data(), 0, 2}}, {2, Encoding::float16, {1, 2}, {1, 2}}),
                 std::invalid_argument);
    EXPECT_THROW(VectorView({{codes.data() + 1, 0, 1}}, {2, Encoding::float16}),
                 std::invalid_argument);
    EXPECT_THROW(VectorView({{codes.data() + 2, 0, 1}}, 1), std::invalid_argument);
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
