#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace flashbulb {

/// A tag, by the number that its dictionary gave it.
using TagId = std::uint32_t;

/// Interned tag names. Ids are dense and never change.
class TagDictionary {
public:
    /// Id of a name, made if it is new.
    TagId intern(std::string_view name);
    /// Id of a name, if it has been interned.
    [[nodiscard]] std::optional<TagId> find(std::string_view name) const;
    /// Name of an id. @throws std::out_of_range if there is none.
    [[nodiscard]] const std::string& name(TagId id) const { return names_.at(id); }
    /// Number of names; ids are below it.
    [[nodiscard]] std::size_t size() const noexcept { return names_.size(); }

private:
    std::vector<std::string> names_;
    std::unordered_map<std::string, TagId> ids_;
};

/// Bloom word of a set of tags: two bits each. If `(word & wanted) != wanted`, a row with `word`
/// lacks one of the wanted tags; otherwise the exact sets decide.
[[nodiscard]] std::uint64_t tag_bloom(std::span<const TagId> tags) noexcept;

}  // namespace flashbulb
