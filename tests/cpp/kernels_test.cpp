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

TEST_P(Kernels, BoundsAreAboveTheScoresMasksCountAndThoseFromTheCutAreFound) {
    Random random(2);
    constexpr float lowest = -std::numeric_limits<float>::infinity();
    for (std::size_t count = 1; count <= 70; ++count) {
        const auto cosines = testing::random_rows(random, 1, count);
        const auto residuals = testing::random_rows(random, 1, count);
        const auto addends = testing::random_rows(random, 1, count);
        std::vector<std::uint16_t> vividness, recency;
        std::vector<std::uint8_t> mask;
        for (std::size_t i = 0; i < count; ++i) {
            vividness.push_back(static_cast<std::uint16_t>(testing::below(random, 65536)));
            recency.push_back(static_cast<std::uint16_t>(testing::below(random, 65536)));
            mask.push_back(static_cast<std::uint8_t>(testing::below(random, 2)));
        }
        const kernels::BoundParameters p{0.5F,  0.25F, 0.125F, 0.3F / 65535, 0.1F / 65535,
                                         0.25F, 4.0F,  -0.5F,  2.0F};
        for (const bool has_addends : {false, true}) {
            for (const bool has_mask : {false, true}) {
                std::vector<float> upper(count);
                const kernels::BoundColumns columns{cosines.data(),
                                                    residuals.data(),
                                                    vividness.data(),
                                                    recency.data(),
                                                    has_addends ? addends.data() : nullptr,
                                                    has_mask ? mask.data() : nullptr};
                std::vector<std::uint16_t> places(count);
                const auto bound_from = [&](float cut) {
                    places.resize(count);
                    places.resize(active_kernels().bound_scores(columns, count, p, cut,
                                                                upper.data(), places.data()));
                };
                bound_from(std::numeric_limits<float>::lowest());
                for (std::size_t i = 0; i < count; ++i) {
                    const double similarity = 0.5 * static_cast<double>(cosines[i]) +
                                              0.25 * static_cast<double>(residuals[i]) + 0.125 +
                                              (has_addends ? static_cast<double>(addends[i]) : 0.0);
                    const double score =
                        similarity +
                        std::clamp((similarity - 0.25) * 4.0, 0.0, 1.0) * 0.3 * vividness[i] /
                            65535 +
                        std::clamp((similarity + 0.5) * 2.0, 0.0, 1.0) * 0.1 * recency[i] / 65535;
                    if (has_mask && mask[i] == 0) {
                        EXPECT_EQ(upper[i], lowest);
                    } else {
                        EXPECT_NEAR(static_cast<double>(upper[i]), score, 3e-6);
                    }
                }
                const float middle = upper[count / 2];
                for (const float cut :
                     {std::numeric_limits<float>::lowest(), middle > lowest ? middle : 0.0F,
                      std::numeric_limits<float>::max()}) {
                    bound_from(cut);
                    std::vector<std::uint16_t> expected;
                    for (std::size_t i = 0; i < count; ++i) {
                        if (upper[i] >= cut) expected.push_back(static_cast<std::uint16_t>(i));
                    }
                    EXPECT_EQ(places, expected) << count << " rows, from " << cut;
                }
            }
        }
    }
}

TEST_P(Kernels, ThePlaceOfTheLargestIsFoundAmongMinusInfinitiesToo) {
    Random random(3);
    constexpr float lowest = -std::numeric_limits<float>::infinity();
    for (std::size_t count = 1; count <= 70; ++count) {
        std::vector<float> values = testing::random_rows(random, 1, count);
        for (std::size_t n = 0; n < count; ++n) {
            const std::size_t place = active_kernels().place_of_largest(values.data(), count);
            ASSERT_LT(place, count);
            EXPECT_EQ(values[place], *std::max_element(values.begin(), values.end()));
            values[place] = lowest;
        }
        EXPECT_LT(active_kernels().place_of_largest(values.data(), count), count);
    }
}

// Products of a block of unpacked codes with groups of 16 queries, in integers: exact.
TEST_P(Kernels, BatchProductsAreExactAndHitsAreThoseAboveTheCut) {
    Random random(5);
    const auto& kernels = active_kernels();
    ASSERT_TRUE(kernels.batch_limit == 15 || kernels.batch_limit == 255);
    for (const std::size_t width : {128U, 384U, 1024U}) {
        constexpr std::size_t count = 64;
        constexpr std::size_t groups = 4;
        std::vector<std::uint8_t> row_memory(count * width + 64);
        std::vector<std::int8_t> query_memory(groups * 16 * width + 64);
        const auto aligned = [](auto& memory) {
            return memory.data() + (64 - reinterpret_cast<std::uintptr_t>(memory.data()) % 64) % 64;
        };
        std::uint8_t* rows = aligned(row_memory);
        std::int8_t* packed = aligned(query_memory);
        for (std::size_t i = 0; i < count * width; ++i) {
            rows[i] =
                static_cast<std::uint8_t>(random() & static_cast<unsigned>(kernels.batch_limit));
        }
        for (std::size_t i = 0; i < groups * 16 * width; ++i) {
            packed[i] = static_cast<std::int8_t>(static_cast<int>(random() % 255) - 127);
        }
        // The largest sums: they must neither saturate nor wrap.
        std::fill_n(rows, width, static_cast<std::uint8_t>(kernels.batch_limit));
        for (std::size_t i = 0; i < width; i += 4) {
            std::fill_n(packed + 16 * i, 4, std::int8_t{127});
            std::fill_n(packed + 16 * i + 4, 4, std::int8_t{-127});
        }
        const auto expected = [&](std::size_t row, std::size_t query) {
            std::int32_t sum = 0;
            for (std::size_t i = 0; i < width; ++i) {
                sum += rows[row * width + i] *
                       packed[query / 16 * 16 * width + i / 4 * 64 + query % 16 * 4 + i % 4];
            }
            return sum;
        };
        std::vector<std::int32_t> out(count * 16);
        for (std::size_t group = 0; group < groups; ++group) {
            for (const std::size_t some : {1U, 15U, 16U, 17U, 63U, 64U}) {
                kernels.batch_products(rows, some, width, packed + group * 16 * width, out.data());
                for (std::size_t row = 0; row < some; ++row) {
                    for (std::size_t lane = 0; lane < 16; ++lane) {
                        ASSERT_EQ(out[row * 16 + lane], expected(row, group * 16 + lane));
                    }
                }
            }
        }
        if (kernels.tile_products != nullptr) {
            std::vector<std::int32_t> all(groups * count * 16);
            for (const std::size_t some : {32U, 64U}) {
                kernels.tile_products(rows, some, width, packed, groups, all.data());
                for (std::size_t query = 0; query < groups * 16; ++query) {
                    for (std::size_t row = 0; row < some; ++row) {
                        ASSERT_EQ(all[(query / 16 * some + row) * 16 + query % 16],
                                  expected(row, query));
                    }
                }
            }
        }
        kernels::BatchLanes lanes;
        for (std::size_t lane = 0; lane < 16; ++lane) {
            lanes.bias[lane] = static_cast<std::int32_t>(testing::below(random, 1000));
            lanes.scale[lane] = 0.5F;
            lanes.cut[lane] = 100.0F * static_cast<float>(lane);
        }
        lanes.cut[3] = std::numeric_limits<float>::infinity();
        const auto scale = testing::random_rows(random, 1, count);
        const auto base = testing::random_rows(random, 1, count);
        for (const int shift : {0, 5}) {
            lanes.shift = shift;
            for (const std::size_t some : {0U, 1U, 64U}) {
                std::vector<std::uint16_t> hits(count * 16);
                hits.resize(kernels.select_batch(out.data(), some, scale.data(), base.data(), lanes,
                                                 hits.data()));
                std::size_t next = 0;
                for (std::size_t pair = 0; pair < some * 16; ++pair) {
                    const std::size_t row = pair / 16;
                    const std::size_t lane = pair % 16;
                    const double score = 0.5 * ((out[pair] << shift) - lanes.bias[lane]) *
                                             static_cast<double>(scale[row]) +
                                         static_cast<double>(base[row]);
                    const double cut = static_cast<double>(lanes.cut[lane]);
                    if (std::abs(score - cut) < 1e-5 * std::abs(score)) {
                        if (next < hits.size() && hits[next] == pair) ++next;  // either will do
                    } else if (score >= cut) {
                        ASSERT_LT(next, hits.size());
                        ASSERT_EQ(hits[next++], pair);
                    } else {
                        ASSERT_TRUE(next == hits.size() || hits[next] != pair);
                    }
                }
                EXPECT_EQ(next, hits.size());
            }
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

// Bit i of the words, for lengths around the vectors and the word; what was set stays set, and so
// do the bits beyond the last row.
TEST_P(Kernels, MarkedRowsAreThoseWithAFlagOrALargeBonus) {
    Random random(8);
    constexpr std::uint8_t any = 24;
    constexpr float vividness_scale = 0.3F / 65535;
    constexpr float recency_scale = 0.1F / 65535;
    for (const std::size_t count : {0U, 1U, 15U, 16U, 17U, 63U, 64U, 65U, 256U, 1000U}) {
        std::vector<std::uint8_t> flags(count);
        std::vector<std::uint16_t> vividness(count), recency(count);
        for (std::size_t i = 0; i < count; ++i) {
            flags[i] = static_cast<std::uint8_t>(testing::below(random, 4) == 0 ? 255 : 255 - any);
            vividness[i] = static_cast<std::uint16_t>(testing::below(random, 65536));
            recency[i] = static_cast<std::uint16_t>(testing::below(random, 65536));
        }
        const auto bonus = [&](std::size_t i) {
            return static_cast<float>(vividness[i]) * vividness_scale +
                   static_cast<float>(recency[i]) * recency_scale;
        };
        constexpr float infinity = std::numeric_limits<float>::infinity();
        // One that a row just reaches, and those that all and none do.
        for (const float threshold : {count == 0 ? 0.2F : bonus(count / 2), 0.0F, infinity}) {
            std::vector<std::uint64_t> words(count / 64 + 2);
            for (auto& word : words) word = random() & random() & random();
            auto expected = words;
            for (std::size_t i = 0; i < count; ++i) {
                if ((flags[i] & any) == 0 && !(bonus(i) >= threshold)) continue;
                expected[i / 64] |= std::uint64_t{1} << i % 64;
            }
            active_kernels().mark_rows(flags.data(), any, vividness.data(), recency.data(), count,
                                       vividness_scale, recency_scale, threshold, words.data());
            EXPECT_EQ(words, expected) << count << " rows, " << threshold;
        }
    }
}

// The kernels' own exp, seen through a vividness of anchor 1: within 2 ulp of the library's, and 0
// where the result would be below 1e-305.
TEST_P(Kernels, ExpIsWithinTwoUlp) {
    Random random(4);
    constexpr std::size_t count = 4096;
    std::vector<double> ones(count, 1.0), zeros(count, 0.0), times(count), out(count);
    for (std::size_t i = 0; i < count; ++i) {
        times[i] = -std::exp(testing::uniform(random, -30.0, std::log(699.0)));
    }
    times[0] = 0.0;
    times[1] = -699.9;
    times[2] = -704.0;
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
