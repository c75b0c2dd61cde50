#include "flashbulb/hashed_head.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <stdexcept>
#include <utility>

namespace flashbulb {

namespace {

// CRC-32 as zlib has it: reflected, polynomial 0x04C11DB7.
constexpr auto crc_table = [] {
    std::array<std::uint32_t, 256> table{};
    for (std::uint32_t byte = 0; byte < table.size(); ++byte) {
        std::uint32_t value = byte;
        for (int bit = 0; bit < 8; ++bit) {
            value = (value >> 1U) ^ ((value & 1U) != 0 ? 0xEDB88320U : 0U);
        }
        table[byte] = value;
    }
    return table;
}();

constexpr std::uint32_t crc_start = 0xFFFFFFFFU;

constexpr std::uint32_t crc_more(std::uint32_t crc, std::string_view bytes) noexcept {
    for (const char byte : bytes) {
        crc = (crc >> 8U) ^ crc_table[(crc ^ static_cast<unsigned char>(byte)) & 0xFFU];
    }
    return crc;
}

constexpr std::uint32_t crc_of(std::string_view bytes) noexcept {
    return ~crc_more(crc_start, bytes);
}

constexpr std::uint32_t edge = crc_of(
    "\x02"
    "edge");
constexpr std::array<std::uint32_t, 3> places{0x9E3779B1U, 0x85EBCA77U, 0xC2B2AE3DU};
constexpr std::array<std::uint32_t, 4> kinds{0x27D4EB2FU, 0x165667B1U, 0xD3A2646CU, 0xFD7046C5U};
constexpr std::size_t shortest_run = 3;  // of letters
constexpr std::size_t longest_run = 5;
constexpr std::size_t class_reach = 3;

// The last steps of MurmurHash3.
constexpr std::uint32_t mixed(std::uint32_t hash) noexcept {
    hash ^= hash >> 16U;
    hash *= 0x85EBCA6BU;
    hash ^= hash >> 13U;
    hash *= 0xC2B2AE35U;
    return hash ^ (hash >> 16U);
}

constexpr bool begins_a_character(char byte) noexcept {
    return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U;
}

}  // namespace

HashedHead::HashedHead(std::vector<float> weights, std::vector<std::string> classes,
                       GroupWeights groups)
    : weights_(std::move(weights)),
      mask_(static_cast<std::uint32_t>(weights_.size() / 2 - 1)),
      classes_(classes.size()),
      groups_(groups) {
    if (weights_.size() < 2 || !std::has_single_bit(weights_.size()) ||
        weights_.size() / 2 - 1 > 0x7FFFFFFFU) {
        throw std::invalid_argument("expected two weights for each of 2^k places, got " +
                                    std::to_string(weights_.size()) + " weights");
    }
    // Bits that name no class weigh nothing.
    const std::size_t bits = 8 * set_bytes();
    pairs_.resize(bits * (bits + 1));
    for (std::size_t one = 0; one < classes_; ++one) {
        const std::uint32_t begun =
            crc_more(crc_more(crc_more(crc_start, "\x01"), classes[one]), ">");
        auto* row = pairs_.data() + one * (bits + 1);
        for (std::size_t other = 0; other <= classes_; ++other) {
            Sum sum;
            add(sum, ~(other == 0 ? begun : crc_more(begun, classes[other - 1])));
            row[other] = {static_cast<float>(sum.value[0]), static_cast<float>(sum.value[1])};
        }
    }
}

void HashedHead::add(Sum& sum, std::uint32_t feature) const noexcept {
    const float* weight = weights_.data() + std::size_t{2} * (feature & mask_);
    const double sign = (feature >> 31U) != 0 ? 1.0 : -1.0;
    sum.value[0] += sign * static_cast<double>(weight[0]);
    sum.value[1] += sign * static_cast<double>(weight[1]);
    ++sum.count;
}

HashedHead::Sum HashedHead::runs(std::span<const std::string_view> words) const {
    std::vector<std::uint32_t> row;
    row.reserve(words.size() + 2);
    row.push_back(edge);
    for (const std::string_view word : words) row.push_back(crc_of(word));
    row.push_back(edge);
    Sum sum;
    for (std::size_t i = 0; i + 1 < row.size(); ++i) {
        const std::uint32_t first = row[i] * places[0];
        const std::uint32_t two = first ^ (row[i + 1] * places[1]);
        if (i > 0) add(sum, mixed(first ^ kinds[0]));
        add(sum, mixed(two ^ kinds[1]));
        if (i + 2 == row.size()) break;
        const std::uint32_t third = row[i + 2] * places[2];
        add(sum, mixed(two ^ third ^ kinds[2]));
        add(sum, mixed(first ^ third ^ kinds[3]));
    }
    return sum;
}

HashedHead::Sum HashedHead::letters(std::span<const std::string_view> words) const {
    Sum sum;
    std::string marked;
    std::vector<std::size_t> starts;  // of the characters, and the end
    for (const std::string_view word : words) {
        marked.assign(1, '<').append(word).push_back('>');
        starts.clear();
        for (std::size_t i = 0; i < marked.size(); ++i) {
            if (begins_a_character(marked[i])) starts.push_back(i);
        }
        starts.push_back(marked.size());
        for (std::size_t first = 0; first + shortest_run < starts.size(); ++first) {
            std::uint32_t crc = crc_start;
            const std::size_t last = std::min(first + longest_run, starts.size() - 1);
            for (std::size_t i = first; i < last; ++i) {
                crc = crc_more(
                    crc, std::string_view(marked).substr(starts[i], starts[i + 1] - starts[i]));
                if (i + 1 - first >= shortest_run) add(sum, ~crc);
            }
        }
    }
    return sum;
}

void HashedHead::add_pairs(Sum& sum, std::span<const std::string_view> sets) const {
    const std::size_t bits = 8 * set_bytes();
    std::vector<std::size_t> members;  // of all sets, one after the other
    std::vector<std::size_t> ends;
    for (const std::string_view set : sets) {
        for (std::size_t byte = 0; byte < set.size(); ++byte) {
            for (unsigned left = static_cast<unsigned char>(set[byte]); left != 0;
                 left &= left - 1) {
                members.push_back(8 * byte + static_cast<std::size_t>(std::countr_zero(left)));
            }
        }
        ends.push_back(members.size());
    }
    for (std::size_t set = 0, begin = 0; set < sets.size(); begin = ends[set++]) {
        const std::size_t last = ends[std::min(set + class_reach, sets.size() - 1)];
        for (std::size_t i = begin; i < ends[set]; ++i) {
            const auto* row = pairs_.data() + members[i] * (bits + 1);
            const auto take = [&sum](const std::array<float, 2>& weights) {
                sum.value[0] += static_cast<double>(weights[0]);
                sum.value[1] += static_cast<double>(weights[1]);
                ++sum.count;
            };
            take(row[0]);
            for (std::size_t j = ends[set]; j < last; ++j) take(row[members[j] + 1]);
        }
    }
}

HashedHead::Two HashedHead::log_odds(
    std::span<const std::string_view> words,
    std::span<const std::vector<std::string_view>> sentences) const {
    std::array<Sum, 3> sums;
    if (!words.empty()) {
        sums[0] = runs(words);
        sums[1] = letters(words);
    }
    for (const auto& sets : sentences) add_pairs(sums[2], sets);
    Two total{};
    for (std::size_t group = 0; group < sums.size(); ++group) {
        const auto& [value, count] = sums[group];
        if (count == 0) continue;
        const double factor = groups_[group] / std::sqrt(static_cast<double>(count));
        total[0] += value[0] * factor;
        total[1] += value[1] * factor;
    }
    return total;
}

}  // namespace flashbulb
