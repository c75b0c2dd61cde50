#include "checksum.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <set>
#include <vector>

#include "dispatch.hpp"
#include "support.hpp"

namespace flashbulb {
namespace {

using testing::Random;

std::vector<std::byte> random_bytes(Random& random, std::size_t count) {
    std::vector<std::byte> bytes(count);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    return bytes;
}

class Checksum : public testing::EverySimdLevel {};

TEST_P(Checksum, ChainsFollowTheirDefinition) {
    Random random(1);
    const auto bytes = random_bytes(random, 64 * 37 + 1);
    std::array<std::uint64_t, 8> state{};
    for (std::uint64_t& x : state) x = random();
    auto expected = state;
    for (std::size_t word = 0; word < 8 * 37; ++word) {
        std::uint64_t value = 0;
        std::memcpy(&value, bytes.data() + 1 + 8 * word, 8);
        const std::uint64_t x = expected[word % 8] ^ value;
        const std::uint64_t high = x >> 32U;
        const std::uint64_t product = ((x ^ high) & 0xFFFFFFFFU) * std::uint64_t{0x9E3779B1U};
        expected[word % 8] = (product << 32U | product >> 32U) ^ high;
    }
    active_kernels().chain(reinterpret_cast<const std::uint8_t*>(bytes.data()) + 1, 37,
                           state.data());  // at an odd address
    EXPECT_EQ(state, expected);
}

// Files are read by other processors than they were written by: these numbers never change.
TEST_P(Checksum, OfKnownDataIsKnown) {
    std::vector<std::byte> bytes(1000);
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * i);
    EXPECT_EQ(checksum({bytes.data(), 0}, 0), 16677694672189883975U);
    EXPECT_EQ(checksum({bytes.data(), 1}, 0), 1793650411060030226U);
    EXPECT_EQ(checksum({bytes.data(), 64}, 7), 16547641815483316181U);
    EXPECT_EQ(checksum(bytes, 7), 3347290837626022452U);
}

// All of them differ from each other: no two flipped bits undo each other either.
TEST_P(Checksum, ChangesWithEveryBitLengthAndSeed) {
    Random random(2);
    for (const std::size_t count : {1U, 8U, 63U, 64U, 65U, 200U, 2000U}) {
        auto bytes = random_bytes(random, count);
        std::set<std::uint64_t> seen{checksum(bytes, 5), checksum(bytes, 6)};
        std::size_t expected = 2;
        for (std::size_t bit = 0; bit < 8 * count; ++bit, ++expected) {
            bytes[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
            seen.insert(checksum(bytes, 5));
            bytes[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
        }
        bytes.push_back(std::byte{0});
        seen.insert(checksum(bytes, 5));
        EXPECT_EQ(seen.size(), expected + 1) << count;
    }
}

TEST_P(Checksum, ChangesWhenPartsChangePlaces) {
    Random random(3);
    const auto bytes = random_bytes(random, 640);
    for (std::size_t size : {8U, 64U}) {
        auto swapped = bytes;
        std::swap_ranges(swapped.begin(), swapped.begin() + static_cast<std::ptrdiff_t>(size),
                         swapped.begin() + 128);
        EXPECT_NE(checksum(swapped, 0), checksum(bytes, 0)) << size;
    }
}

FLASHBULB_AT_EVERY_SIMD_LEVEL(Checksum);

}  // namespace
}  // namespace flashbulb
