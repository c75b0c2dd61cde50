#include "flashbulb/hashed_head.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "support.hpp"

namespace flashbulb {
namespace {

using testing::Random;
using Sets = std::vector<std::vector<std::string_view>>;

constexpr std::size_t places = 1U << 10U;
// Tolerance: some hundred additions of weights below 1, in another order.
constexpr double rounding = 1e-12;

std::vector<float> random_weights() {
    Random random(1);
    std::vector<float> weights(2 * places);
    for (float& weight : weights) weight = static_cast<float>(testing::uniform(random, -1.0, 1.0));
    return weights;
}

/// CRC-32 bit by bit, as its polynomial is written.
std::uint32_t crc(const std::string& bytes) {
    std::uint32_t value = 0xFFFFFFFFU;
    for (const char byte : bytes) {
        value ^= static_cast<unsigned char>(byte);
        for (int bit = 0; bit < 8; ++bit) {
            value = (value >> 1U) ^ ((value & 1U) != 0 ? 0xEDB88320U : 0U);
        }
    }
    return ~value;
}

HashedHead::Two group(const std::vector<std::uint32_t>& features, double counts_for) {
    const auto weights = random_weights();
    HashedHead::Two sum{};
    for (const std::uint32_t feature : features) {
        const double sign = feature >= 0x80000000U ? 1.0 : -1.0;
        sum[0] += sign * static_cast<double>(weights[2 * (feature % places)]);
        sum[1] += sign * static_cast<double>(weights[2 * (feature % places) + 1]);
    }
    const double factor = counts_for / std::sqrt(static_cast<double>(features.size()));
    return {sum[0] * factor, sum[1] * factor};
}

void expect_equal(const HashedHead::Two& value, const HashedHead::Two& expected) {
    EXPECT_NEAR(value[0], expected[0], rounding);
    EXPECT_NEAR(value[1], expected[1], rounding);
}

TEST(HashedHeadTest, TheChecksumIsThatOfZlib) { EXPECT_EQ(crc("123456789"), 0xCBF43926U); }

TEST(HashedHeadTest, NothingHasNoLogOdds) {
    const HashedHead head(random_weights(), {"loss"}, {4.0, 4.0, 4.0});
    expect_equal(head.log_odds({}, {}), {0.0, 0.0});
    expect_equal(head.log_odds({}, Sets(2)), {0.0, 0.0});
}

TEST(HashedHeadTest, LettersAreRunsOfThreeToFiveWithTheEndsMarked) {
    const HashedHead head(random_weights(), {}, {0.0, 3.0, 0.0});
    const std::vector<std::string_view> words{"lost", "a"};
    const std::vector<std::string> runs{"<lo",  "los",  "ost",   "st>",   "<los",
                                        "lost", "ost>", "<lost", "lost>", "<a>"};
    std::vector<std::uint32_t> features;
    for (const std::string& run : runs) features.push_back(crc(run));
    expect_equal(head.log_odds(words, {}), group(features, 3.0));
}

TEST(HashedHeadTest, ALetterMayHaveSeveralBytes) {
    const HashedHead head(random_weights(), {}, {0.0, 3.0, 0.0});
    const std::vector<std::string_view> words{"失", "né"};
    const std::vector<std::string> runs{"<失>", "<né", "né>", "<né>"};
    std::vector<std::uint32_t> features;
    for (const std::string& run : runs) features.push_back(crc(run));
    expect_equal(head.log_odds(words, {}), group(features, 3.0));
}

TEST(HashedHeadTest, OrderOfWordsMatters) {
    const HashedHead head(random_weights(), {}, {1.0, 0.0, 0.0});
    const std::vector<std::string_view> words{"no", "data", "lost"};
    const std::vector<std::string_view> others{"data", "no", "lost"};
    EXPECT_GT(std::abs(head.log_odds(words, {})[0] - head.log_odds(others, {})[0]), 1e-3);
}

TEST(HashedHeadTest, RunsAreWordsTwosThreesAndGaps) {
    // A weight of 1 everywhere: only signs are summed, and the features counted.
    const std::vector<float> ones(2 * places, 1.0F);
    const HashedHead head(ones, {}, {1.0, 0.0, 0.0});
    const std::vector<std::string_view> words{"data", "lost"};
    const auto mixed = [](std::uint32_t hash) {
        hash = (hash ^ (hash >> 16U)) * 0x85EBCA6BU;
        hash = (hash ^ (hash >> 13U)) * 0xC2B2AE35U;
        return hash ^ (hash >> 16U);
    };
    const std::uint32_t e =
        crc("\x02"
            "edge");
    const std::uint32_t d = crc("data");
    const std::uint32_t l = crc("lost");
    const std::uint32_t a = 0x9E3779B1U;
    const std::uint32_t b = 0x85EBCA77U;
    const std::uint32_t c = 0xC2B2AE3DU;
    const std::vector<std::uint32_t> features{
        d * a ^ 0x27D4EB2FU,
        l * a ^ 0x27D4EB2FU,  // each
        e * a ^ d * b ^ 0x165667B1U,
        d * a ^ l * b ^ 0x165667B1U,
        l * a ^ e * b ^ 0x165667B1U,
        e * a ^ d * b ^ l * c ^ 0xD3A2646CU,  // three in a row
        d * a ^ l * b ^ e * c ^ 0xD3A2646CU,
        e * a ^ l * c ^ 0xFD7046C5U,  // around a third
        d * a ^ e * c ^ 0xFD7046C5U};
    double signs = 0.0;
    for (const std::uint32_t feature : features) signs += mixed(feature) >> 31U ? 1.0 : -1.0;
    EXPECT_NEAR(head.log_odds(words, {})[0], signs / 3.0, rounding);
}

TEST(HashedHeadTest, ClassesArePairedWithThoseOfTheNextThreeWordsOfASentence) {
    std::vector<std::string> names;
    for (int i = 0; i < 10; ++i) names.push_back(std::string("class").append(std::to_string(i)));
    const HashedHead head(random_weights(), names, {0.0, 0.0, 2.0});
    ASSERT_EQ(head.set_bytes(), 2U);
    const std::string both("\x01\x02", 2);  // classes 0 and 9
    const std::string one("\x02\x00", 2);   // class 1
    const Sets sentences{{both, one, one, one, one}, {one}};
    std::vector<std::uint32_t> features;
    const auto add = [&](const std::string& first, const std::string& second) {
        features.push_back(crc(std::string("\x01").append(first).append(">").append(second)));
    };
    for (const char* name : {"class0", "class9"}) {
        add(name, "");
        for (int reach = 0; reach < 3; ++reach) add(name, "class1");
    }
    for (int alone = 0; alone < 5; ++alone) add("class1", "");
    for (int pair = 0; pair < 3 + 2 + 1; ++pair) add("class1", "class1");
    expect_equal(head.log_odds({}, sentences), group(features, 2.0));
}

TEST(HashedHeadTest, WeightsThatDoNotFitAreRefused) {
    EXPECT_THROW(HashedHead({}, {}, {}), std::invalid_argument);
    EXPECT_THROW(HashedHead({1.0F}, {}, {}), std::invalid_argument);
    EXPECT_THROW(HashedHead(std::vector<float>(6), {}, {}), std::invalid_argument);
}

}  // namespace
}  // namespace flashbulb
