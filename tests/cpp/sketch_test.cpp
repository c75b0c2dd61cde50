#include "flashbulb/sketch.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "coded_queries.hpp"
#include "dispatch.hpp"
#include "support.hpp"

namespace flashbulb {
namespace {

using testing::Random;
using testing::unit_rows;

constexpr double norm = 1.0 + 1e-5;

VectorView view_of(std::vector<float>& rows, std::size_t dim) {
    return VectorView({{rows.data(), 0, rows.size() / dim}}, dim);
}

// Value i of a row of a plane.
int half_of(const std::uint8_t* plane_row, std::size_t i) {
    const std::uint8_t byte = plane_row[i / 128 * 64 + i % 64];
    return i % 128 < 64 ? byte & 15 : byte >> 4;
}

// Rows that are hard to quantise: one huge component, zeros, equal components, tiny values.
std::vector<float> hard_rows(Random& random, std::size_t dim) {
    std::vector<float> rows = unit_rows(random, 8, dim);
    std::fill_n(rows.begin(), dim, 0.0F);
    rows[0] = 1.0F;
    std::fill_n(rows.begin() + static_cast<std::ptrdiff_t>(dim), dim,
                1.0F / std::sqrt(static_cast<float>(dim)));
    std::fill_n(rows.begin() + static_cast<std::ptrdiff_t>(2 * dim), dim, 0.0F);
    std::fill_n(rows.begin() + static_cast<std::ptrdiff_t>(3 * dim), dim,
                std::numeric_limits<float>::denorm_min());
    rows[4 * dim] = -0.999F;
    return rows;
}

class SketchLevels : public testing::EverySimdLevel {};

TEST_P(SketchLevels, TheRotationIsOrthogonalWithinItsErrorAndTheSameEverywhere) {
    Random random(5);
    for (const std::size_t dim : {1U, 2U, 3U, 7U, 16U, 63U, 64U, 65U, 384U, 1000U}) {
        const Sketch sketch(dim);
        const auto rows = unit_rows(random, 12, dim);
        std::vector<float> rotated(rows.size());
        for (std::size_t row = 0; row < 12; ++row) {
            sketch.rotate(rows.data() + row * dim, rotated.data() + row * dim);
        }
        for (std::size_t a = 0; a < 12; ++a) {
            for (std::size_t b = 0; b < 12; ++b) {
                const double before =
                    testing::plain_inner_product(rows.data() + a * dim, rows.data() + b * dim, dim);
                const double after = testing::plain_inner_product(rotated.data() + a * dim,
                                                                  rotated.data() + b * dim, dim);
                EXPECT_NEAR(after, before, 2.02 * sketch.rotation_error()) << dim;
            }
        }
        std::vector<float> base(rows.size());
        const testing::LevelGuard guard;
        set_simd_level("base");
        for (std::size_t row = 0; row < 12; ++row) {
            sketch.rotate(rows.data() + row * dim, base.data() + row * dim);
        }
        EXPECT_EQ(rotated, base) << dim;
    }
}

TEST(SketchTest, ARotationSpreadsASingleValue) {
    constexpr std::size_t dim = 384;
    const Sketch sketch(dim);
    for (const std::size_t place : {0U, 127U, 128U, 383U}) {
        std::vector<float> row(dim);
        row[place] = 1.0F;
        std::vector<float> rotated(dim);
        sketch.rotate(row.data(), rotated.data());
        for (const float value : rotated) EXPECT_LT(std::abs(value), 0.3F) << place;
    }
}

TEST_P(SketchLevels, ResidualsAreUpperBoundsAndTight) {
    Random random(1);
    for (const std::size_t dim : {1U, 7U, 63U, 64U, 65U, 384U, 1000U}) {
        std::vector<float> rows = hard_rows(random, dim);
        const VectorView view = view_of(rows, dim);
        Sketch sketch(dim);
        sketch.extend(view);
        ASSERT_EQ(sketch.rows(), view.rows());
        const auto run = sketch.run(0);
        std::vector<float> rotated(dim);
        for (std::size_t row = 0; row < view.rows(); ++row) {
            sketch.rotate(rows.data() + row * dim, rotated.data());
            long double sum4 = 0.0L;
            long double sum8 = 0.0L;
            for (std::size_t i = 0; i < dim; ++i) {
                const int high = half_of(run.high + row * sketch.stride(), i);
                const int low = half_of(run.low + row * sketch.stride(), i);
                const auto scale = static_cast<long double>(run.scales[row]);
                const auto value = static_cast<long double>(rotated[i]);
                const long double missed4 = value - scale * (16.0L * high - 120.5L);
                const long double missed8 = value - scale * (16.0L * high + low - 128.0L);
                sum4 += missed4 * missed4;
                sum8 += missed8 * missed8;
            }
            for (const auto& [given, exact] : {std::pair{run.residuals4[row], std::sqrt(sum4)},
                                               std::pair{run.residuals8[row], std::sqrt(sum8)}}) {
                EXPECT_GE(static_cast<long double>(given), exact);
                EXPECT_LE(static_cast<long double>(given), exact * 1.000001L + 1e-37L);
            }
        }
    }
}

TEST_P(SketchLevels, ErrorsBoundTheCosines) {
    Random random(2);
    const auto& kernels = active_kernels();
    for (const std::size_t dim : {1U, 5U, 64U, 100U, 384U, 1024U, 3000U}) {
        std::vector<float> rows = hard_rows(random, dim);
        const auto more = unit_rows(random, 200, dim);
        rows.insert(rows.end(), more.begin(), more.end());
        // The largest sums of products: a query equal to a row, and its opposite.
        auto queries = unit_rows(random, 2, dim);
        queries.insert(queries.end(), rows.begin(), rows.begin() + 2 * static_cast<long>(dim));
        for (std::size_t i = 0; i < dim; ++i) queries.push_back(-rows[dim + i]);
        const VectorView view = view_of(rows, dim);
        Sketch sketch(dim);
        sketch.extend(view);
        const auto run = sketch.run(0);
        const std::size_t query_count = queries.size() / dim;
        const CodedQueries coded(sketch, queries.data(), query_count, norm, norm, false);
        std::vector<std::uint16_t> places;
        for (std::size_t row = 0; row < view.rows(); row += 3) {
            places.push_back(static_cast<std::uint16_t>(row));
        }
        std::vector<float> gathered_scales;
        for (const std::uint16_t place : places) gathered_scales.push_back(run.scales[place]);
        for (std::size_t query = 0; query < query_count; ++query) {
            std::vector<float> coarse(view.rows());
            std::vector<float> fine(view.rows());
            kernels.scan_int4(run.high, view.rows(), sketch.stride(), coded[query], run.scales,
                              coarse.data());
            kernels.scan_int8(run.high, run.low, view.rows(), sketch.stride(), coded[query],
                              run.scales, fine.data());
            std::vector<float> gathered(places.size());
            kernels.gather_int4(run.high, places.data(), places.size(), sketch.stride(),
                                coded[query], gathered_scales.data(), gathered.data());
            for (std::size_t i = 0; i < places.size(); ++i) {
                EXPECT_EQ(gathered[i], coarse[places[i]]);
            }
            for (std::size_t row = 0; row < view.rows(); ++row) {
                const double exact =
                    testing::plain_inner_product(queries.data() + query * dim, view.row(row), dim);
                const CosineError error4 = coded.coarse_error(query);
                const CosineError error8 = coded.fine_error(query);
                EXPECT_LE(std::abs(static_cast<double>(coarse[row]) - exact),
                          error4.slope * static_cast<double>(run.residuals4[row]) + error4.offset)
                    << "dim " << dim << " query " << query << " row " << row;
                EXPECT_LE(std::abs(static_cast<double>(fine[row]) - exact),
                          error8.slope * static_cast<double>(run.residuals8[row]) + error8.offset)
                    << "dim " << dim << " query " << query << " row " << row;
            }
        }
    }
}

TEST_P(SketchLevels, UnpackedCodesAreThoseOfThePlanes) {
    Random random(6);
    for (const std::size_t dim : {1U, 65U, 128U, 384U, 1000U}) {
        auto rows = unit_rows(random, 5, dim);
        Sketch sketch(dim);
        sketch.extend(view_of(rows, dim));
        const auto run = sketch.run(0);
        const std::size_t width = 2 * sketch.stride();
        std::vector<std::uint8_t> high(5 * width);
        std::vector<std::uint8_t> both(5 * width);
        active_kernels().unpack_codes(run.high, nullptr, 5, sketch.stride(), high.data());
        active_kernels().unpack_codes(run.high, run.low, 5, sketch.stride(), both.data());
        for (std::size_t row = 0; row < 5; ++row) {
            for (std::size_t i = 0; i < dim; ++i) {
                const int upper = half_of(run.high + row * sketch.stride(), i);
                const int lower = half_of(run.low + row * sketch.stride(), i);
                ASSERT_EQ(high[row * width + i], upper);
                ASSERT_EQ(both[row * width + i], 16 * upper + lower);
            }
        }
    }
}

TEST_P(SketchLevels, GrowsChangesAndShrinksWithItsRows) {
    Random random(3);
    constexpr std::size_t dim = 10;
    std::vector<float> rows = unit_rows(random, 3000, dim);
    Sketch sketch(dim);
    const auto expect_like_new = [&](std::size_t count) {
        const VectorView view({{rows.data(), 0, count}}, dim);
        Sketch fresh(dim);
        fresh.extend(view);
        ASSERT_EQ(sketch.rows(), count);
        for (std::size_t row = 0; row < count; ++row) {
            const auto a = sketch.run(row);
            const auto b = fresh.run(row);
            EXPECT_TRUE(std::equal(a.high, a.high + sketch.stride(), b.high));
            EXPECT_TRUE(std::equal(a.low, a.low + sketch.stride(), b.low));
            EXPECT_EQ(a.scales[0], b.scales[0]);
            EXPECT_EQ(a.residuals4[0], b.residuals4[0]);
            EXPECT_EQ(a.residuals8[0], b.residuals8[0]);
        }
    };
    for (const std::size_t count : {1U, 2U, 255U, 256U, 257U, 3000U}) {
        sketch.extend(VectorView({{rows.data(), 0, count}}, dim));
        expect_like_new(count);
    }
    std::fill_n(rows.begin() + 70, dim, 0.0F);
    sketch.update(view_of(rows, dim), 7);
    expect_like_new(3000);
    sketch.truncate(100);
    expect_like_new(100);
    sketch.extend(view_of(rows, dim));
    expect_like_new(3000);
    sketch.truncate(0);
    EXPECT_EQ(sketch.rows(), 0U);
}

TEST(SketchTest, AFullChunkNeverMovesAndRunsEndWithTheirChunk) {
    Random random(4);
    constexpr std::size_t dim = 3;
    constexpr std::size_t chunk = Sketch::chunk_rows;
    std::vector<float> rows = unit_rows(random, 2 * chunk + 5, dim);
    Sketch sketch(dim);
    sketch.extend(VectorView({{rows.data(), 0, chunk}}, dim));
    const auto* address = sketch.run(0).high;
    sketch.extend(view_of(rows, dim));
    EXPECT_EQ(sketch.run(0).high, address);
    for (const std::size_t row : {std::size_t{0}, chunk - 1, chunk, 2 * chunk, 2 * chunk + 4}) {
        const auto run = sketch.run(row);
        EXPECT_EQ(run.count, std::min(chunk - row % chunk, 2 * chunk + 5 - row));
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(run.high) % 64, 0U);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(run.low) % 64, 0U);
    }
}

TEST(SketchTest, RefusesWhatDoesNotFit) {
    EXPECT_THROW(Sketch(0), std::invalid_argument);
    EXPECT_THROW(Sketch(Sketch::largest_dim + 1), std::invalid_argument);
    std::vector<float> rows(12, 0.5F);
    Sketch sketch(4);
    sketch.extend(view_of(rows, 4));
    EXPECT_THROW(sketch.extend(view_of(rows, 3)), std::invalid_argument);
    EXPECT_THROW(sketch.extend(VectorView({{rows.data(), 0, 2}}, 4)), std::invalid_argument);
    EXPECT_THROW(sketch.update(view_of(rows, 4), 3), std::invalid_argument);
    EXPECT_THROW(sketch.require_rows_of(view_of(rows, 6)), std::invalid_argument);
    EXPECT_NO_THROW(sketch.require_rows_of(view_of(rows, 4)));
    EXPECT_EQ(sketch.rows(), 3U);
}

FLASHBULB_AT_EVERY_SIMD_LEVEL(SketchLevels);

}  // namespace
}  // namespace flashbulb
