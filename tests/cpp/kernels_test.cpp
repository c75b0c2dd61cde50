#include "kernels/table.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "dispatch.hpp"
#include "support.hpp"

namespace flashbulb {
namespace {

using testing::Random;

class Kernels : public testing::EverySimdLevel {};

// Bound: (d + 8) 2^-24 |q||x|, as the search assumes, whatever the order of summation.
TEST_P(Kernels, SelectionStaysWithinTheSlackThatSearchAllows) {
    Random random(1);
    for (std::size_t dim = 1; dim <= 1024; dim = dim < 70 ? dim + 1 : dim * 2) {
        for (const std::size_t count : {1U, 7U, 8U, 9U, 23U}) {
            const auto rows = testing::unit_rows(random, count, dim);
            const auto query = testing::unit_rows(random, 1, dim);
            std::vector<float> out(count);
            active_kernels().select_inner_products(query.data(), rows.data(), count, dim,
                                                   out.data());
            for (std::size_t row = 0; row < count; ++row) {
                const double exact =
                    testing::plain_inner_product(query.data(), rows.data() + row * dim, dim);
                EXPECT_NEAR(static_cast<double>(out[row]), exact,
                            (static_cast<double>(dim) + 8.0) * 0x1p-24)
                    << dim;
            }
        }
    }
}

TEST_P(Kernels, FuseMasksRowsAndReturnsTheBest) {
    Random random(2);
    constexpr double lowest = -std::numeric_limits<double>::infinity();
    for (std::size_t count = 1; count <= 40; ++count) {
        const auto cosines = testing::random_rows(random, 1, count);
        std::vector<double> errors, addends, vividness, recency, scores(count);
        std::vector<std::uint8_t> mask;
        for (std::size_t i = 0; i < count; ++i) {
            errors.push_back(testing::uniform(random, 0.0, 0.01));
            addends.push_back(testing::uniform(random));
            vividness.push_back(testing::uniform(random));
            recency.push_back(testing::uniform(random));
            mask.push_back(static_cast<std::uint8_t>(testing::below(random, 2)));
        }
        for (const kernels::Ramp& ramp : {kernels::Ramp{-0x1p1000, 1.0}, {0.2, 2.5}}) {
            const double best = active_kernels().fuse(
                cosines.data(), errors.data(), addends.data(), vividness.data(), recency.data(),
                mask.data(), count, {0.5, ramp, {0.1, 1.5}}, scores.data());
            double expected_best = lowest;
            for (std::size_t i = 0; i < count; ++i) {
                const double similarity =
                    0.5 * static_cast<double>(cosines[i]) + addends[i] + errors[i];
                const auto factor = [&](const kernels::Ramp& each) {
                    return std::clamp((similarity - each.start) * each.slope, 0.0, 1.0);
                };
                const double score =
                    similarity + factor(ramp) * vividness[i] + factor({0.1, 1.5}) * recency[i];
                EXPECT_EQ(scores[i], mask[i] != 0 ? score : lowest);
                expected_best = std::max(expected_best, scores[i]);
            }
            EXPECT_EQ(best, expected_best);
        }
    }
}

TEST_P(Kernels, FiltersLeaveOneOrZero) {
    Random random(3);
    constexpr double nan = std::numeric_limits<double>::quiet_NaN();
    for (std::size_t count = 0; count <= 70; ++count) {
        std::vector<std::uint8_t> flags(count), mask(count), after(count);
        std::vector<double> times(count);
        std::vector<std::uint64_t> blooms(count);
        for (std::size_t i = 0; i < count; ++i) {
            flags[i] = static_cast<std::uint8_t>(random());
            times[i] = testing::below(random, 9) == 0 ? nan : testing::uniform(random, 0.0, 10.0);
            if (testing::below(random, 5) == 0) times[i] = i % 2 == 0 ? 2.0 : 7.0;  // the limits
            blooms[i] = random() | random();
        }
        const auto& kernels = active_kernels();
        kernels.filter_flags(flags.data(), count, 5, 4, mask.data());
        for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(mask[i], (flags[i] & 5) == 4 ? 1 : 0);
        after = mask;
        kernels.filter_times(times.data(), count, 2.0, 7.0, after.data());
        for (std::size_t i = 0; i < count; ++i) {
            EXPECT_EQ(after[i], mask[i] != 0 && times[i] >= 2.0 && times[i] < 7.0 ? 1 : 0);
        }
        after = mask;
        const std::uint64_t wanted = 0x8000000000000041ULL;
        kernels.filter_blooms(blooms.data(), count, wanted, after.data());
        for (std::size_t i = 0; i < count; ++i) {
            EXPECT_EQ(after[i], mask[i] != 0 && (blooms[i] & wanted) == wanted ? 1 : 0);
        }
    }
}

// The kernels' own exp, seen through a vividness of anchor 1: within 2 ulp of the library's, and 0
// where the result would be below 1e-304.
TEST_P(Kernels, ExpIsWithinTwoUlp) {
    Random random(4);
    constexpr std::size_t count = 4096;
    std::vector<double> ones(count, 1.0), zeros(count, 0.0), times(count), out(count);
    for (std::size_t i = 0; i < count; ++i) {
        times[i] = -std::exp(testing::uniform(random, -30.0, std::log(699.0)));
    }
    times[0] = 0.0;
    times[1] = -699.9;
    times[2] = -701.0;
    times[3] = -1e300;
    const kernels::LawColumns columns{ones.data(),  times.data(), ones.data(), zeros.data(),
                                      zeros.data(), zeros.data(), times.data()};
    active_kernels().vividness(columns, 0, count, {false, 0.0, 0.0, 0.0, 1.0}, out.data());
    EXPECT_EQ(out[0], 1.0);
    EXPECT_EQ(out[2], 0.0);
    EXPECT_EQ(out[3], 0.0);
    for (std::size_t i = 4; i < count; ++i) {
        const double expected = std::exp(times[i]);
        EXPECT_NEAR(out[i], expected, expected * 0x1p-51) << times[i];
    }
}

FLASHBULB_AT_EVERY_SIMD_LEVEL(Kernels);

}  // namespace
}  // namespace flashbulb
