#include "checksum.hpp"

#include <array>
#include <cstring>

#include "dispatch.hpp"

namespace flashbulb {

namespace {

constexpr std::size_t stripe = 64;

// One to one, and every bit of the result depends on every bit of x: the finaliser of splitmix64
// (Steele, Lea, Flood 2014).
std::uint64_t mixed(std::uint64_t x) {
    x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9U;
    x = (x ^ (x >> 27U)) * 0x94D049BB133111EBU;
    return x ^ (x >> 31U);
}

}  // namespace

std::uint64_t checksum(std::span<const std::byte> data, std::uint64_t seed) {
    std::array<std::uint64_t, stripe / 8> state{};
    std::uint64_t start = mixed(mixed(seed) ^ data.size());
    for (std::uint64_t& x : state) x = mixed(start += 0x9E3779B97F4A7C15U);
    const auto& kernels = active_kernels();
    const std::size_t whole = data.size() / stripe;
    const std::size_t rest = data.size() % stripe;
    kernels.chain(reinterpret_cast<const std::uint8_t*>(data.data()), whole, state.data());
    if (rest > 0) {
        std::array<std::uint8_t, stripe> last{};
        std::memcpy(last.data(), data.data() + whole * stripe, rest);
        kernels.chain(last.data(), 1, state.data());
    }
    std::uint64_t result = 0;
    for (const std::uint64_t x : state) result = mixed(result ^ x);
    return result;
}

}  // namespace flashbulb
