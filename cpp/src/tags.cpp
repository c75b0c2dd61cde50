#include "flashbulb/tags.hpp"

namespace flashbulb {

TagId TagDictionary::intern(std::string_view name) {
    const auto [entry, is_new] =
        ids_.try_emplace(std::string(name), static_cast<TagId>(names_.size()));
    if (is_new) names_.emplace_back(name);
    return entry->second;
}

std::optional<TagId> TagDictionary::find(std::string_view name) const {
    const auto entry = ids_.find(std::string(name));
    if (entry == ids_.end()) return std::nullopt;
    return entry->second;
}

std::uint64_t tag_bloom(std::span<const TagId> tags) noexcept {
    std::uint64_t word = 0;
    for (const TagId tag : tags) {
        // Fibonacci hashing spreads dense ids; its top bits choose the two positions.
        const std::uint64_t hash = (std::uint64_t{tag} + 1) * 0x9E3779B97F4A7C15ULL;
        word |= std::uint64_t{1} << (hash >> 58U);
        word |= std::uint64_t{1} << ((hash >> 52U) & 63U);
    }
    return word;
}

}  // namespace flashbulb
