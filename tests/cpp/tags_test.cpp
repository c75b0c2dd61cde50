#include "flashbulb/tags.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <vector>

namespace flashbulb {
namespace {

TEST(TagDictionaryTest, InternsOnceAndNeverChangesAnId) {
    TagDictionary tags;
    const TagId payments = tags.intern("payments");
    const TagId empty = tags.intern("");
    EXPECT_NE(payments, empty);
    for (int i = 0; i < 1000; ++i) tags.intern("tag" + std::to_string(i));
    EXPECT_EQ(tags.intern("payments"), payments);
    EXPECT_EQ(tags.find("payments"), payments);
    EXPECT_EQ(tags.name(payments), "payments");
    EXPECT_EQ(tags.size(), 1002U);
    EXPECT_EQ(tags.find("Payments"), std::nullopt);
    EXPECT_THROW((void)tags.name(5000), std::out_of_range);
}

TEST(TagBloomTest, NeverLosesASubset) {
    std::vector<TagId> row;
    for (TagId tag = 0; tag < 40; ++tag) {
        row.push_back(tag * tag + 1);
        const std::uint64_t word = tag_bloom(row);
        for (const TagId wanted : row) {
            const std::uint64_t bits = tag_bloom(std::vector<TagId>{wanted});
            EXPECT_EQ(word & bits, bits);
            EXPECT_LE(std::popcount(bits), 2);
            EXPECT_GE(std::popcount(bits), 1);
        }
    }
    EXPECT_EQ(tag_bloom({}), 0U);
}

// With two bits of 64 a tag, a row of three other tags lets through (6/64)^2 or 1 % of them.
TEST(TagBloomTest, RejectsMostRowsThatLackTheTag) {
    int passed = 0;
    constexpr int tried = 10'000;
    for (TagId tag = 0; tag < tried; ++tag) {
        const std::vector<TagId> row = {tag, tag + 1, tag + 2};
        const std::uint64_t wanted = tag_bloom(std::vector<TagId>{tag + 777});
        if ((tag_bloom(row) & wanted) == wanted) ++passed;
    }
    EXPECT_LT(passed, tried * 3 / 100);
}

}  // namespace
}  // namespace flashbulb
