#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace flashbulb {

/// 64 bits that tell data from damaged data: not from what was forged. Data that differ within one
/// aligned word of 8 bytes never have the same; any others with a probability of about 2^-64. The
/// same at every SIMD level; words are little-endian.
/// @param seed what else the data belong to, such as their place in a file
[[nodiscard]] std::uint64_t checksum(std::span<const std::byte> data, std::uint64_t seed);

}  // namespace flashbulb
