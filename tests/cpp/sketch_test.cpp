#include "flashbulb/sketch.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "scanner.hpp"
#include "support.hpp"

namespace flashbulb {
namespace {

using testing::Random;
using testing::unit_rows;

VectorView view_of(std::vector<float>& rows, std::size_t dim) {
    return VectorView({{rows.data(), 0, rows.size() / dim}}, dim);
}

// The residual, computed anew in long double from the stored codes.
long double residual_of(const Int8Sketch::Run& run, std::size_t row, std::size_t stride,
                        const float* original, std::size_t dim) {
    long double sum = 0.0L;
    for (std::size_t i = 0; i < dim; ++i) {
        const long double decoded = static_cast<long double>(run.scales[row]) *
                                    static_cast<long double>(run.codes[row * stride + i]);
        const long double missed = static_cast<long double>(original[i]) - decoded;
        sum += missed * missed;
    }
    return std::sqrt(sum);
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

class Sketch : public testing::EverySimdLevel {};

TEST_P(Sketch, ResidualsAreUpperBoundsAndTight) {
    Random random(1);
    for (const std::size_t dim : {1U, 7U, 63U, 64U, 65U, 384U, 1000U}) {
        std::vector<float> rows = hard_rows(random, dim);
        const VectorView view = view_of(rows, dim);
        Int8Sketch sketch(dim);
        sketch.extend(view);
        ASSERT_EQ(sketch.rows(), view.rows());
        const auto run = sketch.run(0);
        for (std::size_t row = 0; row < view.rows(); ++row) {
            const long double exact = residual_of(run, row, sketch.stride(), view.row(row), dim);
            EXPECT_GE(static_cast<long double>(run.residuals[row]), exact);
            EXPECT_LE(static_cast<long double>(run.residuals[row]), exact * 1.000001L + 1e-37L);
        }
    }
}

TEST_P(Sketch, ErrorsBoundTheCosines) {
    Random random(2);
    for (const std::size_t dim : {1U, 5U, 64U, 100U, 384U, 1024U, 3000U}) {
        std::vector<float> rows = hard_rows(random, dim);
        const auto more = unit_rows(random, 200, dim);
        rows.insert(rows.end(), more.begin(), more.end());
        // The largest sums of products: a query equal to a row, and its opposite.
        auto queries = unit_rows(random, 2, dim);
        queries.insert(queries.end(), rows.begin(), rows.begin() + 2 * static_cast<long>(dim));
        for (std::size_t i = 0; i < dim; ++i) queries.push_back(-rows[dim + i]);
        const VectorView view = view_of(rows, dim);
        Int8Sketch sketch(dim);
        sketch.extend(view);
        const std::size_t query_count = queries.size() / dim;
        const std::vector<std::uint8_t> mask(view.rows(), 1);
        for (const auto& scanner :
             {scan_sketch(sketch, queries.data(), query_count), scan_rows(queries.data(), dim)}) {
            for (std::size_t query = 0; query < query_count; ++query) {
                std::vector<float> cosines(view.rows());
                std::vector<double> errors(view.rows());
                scanner->scan(query, {0, view.rows(), rows.data(), mask.data(), view.rows()},
                              cosines.data(), errors.data());
                for (std::size_t row = 0; row < view.rows(); ++row) {
                    const double exact = testing::plain_inner_product(queries.data() + query * dim,
                                                                      view.row(row), dim);
                    EXPECT_LE(std::abs(static_cast<double>(cosines[row]) - exact), errors[row])
                        << "dim " << dim << " query " << query << " row " << row;
                }
            }
        }
    }
}

TEST_P(Sketch, GrowsChangesAndShrinksWithItsRows) {
    Random random(3);
    constexpr std::size_t dim = 10;
    std::vector<float> rows = unit_rows(random, 3000, dim);
    Int8Sketch sketch(dim);
    const auto expect_like_new = [&](std::size_t count) {
        const VectorView view({{rows.data(), 0, count}}, dim);
        Int8Sketch fresh(dim);
        fresh.extend(view);
        ASSERT_EQ(sketch.rows(), count);
        for (std::size_t row = 0; row < count; ++row) {
            const auto a = sketch.run(row);
            const auto b = fresh.run(row);
            EXPECT_TRUE(std::equal(a.codes, a.codes + dim, b.codes));
            EXPECT_EQ(a.scales[0], b.scales[0]);
            EXPECT_EQ(a.residuals[0], b.residuals[0]);
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

TEST(SketchTest, AFullChunkNeverMovesAndBlocksStayInsideIt) {
    Random random(4);
    constexpr std::size_t dim = 3;
    constexpr std::size_t chunk = 65536;
    std::vector<float> rows = unit_rows(random, 2 * chunk + 5, dim);
    Int8Sketch sketch(dim);
    sketch.extend(VectorView({{rows.data(), 0, chunk}}, dim));
    const auto* address = sketch.run(0).codes;
    const VectorView view({{rows.data(), 0, 100}, {rows.data() + 100 * dim, 100, 2 * chunk - 95}},
                          dim);
    sketch.extend(view);
    EXPECT_EQ(sketch.run(0).codes, address);
    std::size_t next = 0;
    for_each_block(view, &sketch, [&](std::size_t begin, std::size_t count, const float* first) {
        EXPECT_EQ(begin, next);
        EXPECT_EQ(first, view.row(begin));
        EXPECT_LE(count, sketch.run(begin).count);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(sketch.run(begin).codes) % 64, 0U);
        next = begin + count;
    });
    EXPECT_EQ(next, view.rows());
}

TEST(SketchTest, RefusesWhatDoesNotFit) {
    EXPECT_THROW(Int8Sketch(0), std::invalid_argument);
    std::vector<float> rows(12, 0.5F);
    Int8Sketch sketch(4);
    sketch.extend(view_of(rows, 4));
    EXPECT_THROW(sketch.extend(view_of(rows, 3)), std::invalid_argument);
    EXPECT_THROW(sketch.extend(VectorView({{rows.data(), 0, 2}}, 4)), std::invalid_argument);
    EXPECT_THROW(sketch.update(view_of(rows, 4), 3), std::invalid_argument);
    EXPECT_EQ(sketch.rows(), 3U);
}

INSTANTIATE_TEST_SUITE_P(Levels, Sketch, ::testing::ValuesIn(testing::level_names()),
                         testing::level_of);

}  // namespace
}  // namespace flashbulb
