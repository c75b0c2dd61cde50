#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace flashbulb {

/// The part of the local model of arousal that reads words: two linear models over hashed features
/// of a text. Which features there are, `python/flashbulb/arousal/features.py` says: runs of words,
/// runs of a word's letters, and pairs of the classes that words have in the rules. It makes the
/// same numbers, for training; here their weights are only summed.
///
/// A feature is a 32 bit number: its low bits say which weight, its highest bit which sign (set:
/// as it is). Immutable; safe to use from several threads.
class HashedHead {
public:
    /// A value for each of the two models.
    using Two = std::array<double, 2>;
    /// What the features of runs, letters and pairs count for.
    using GroupWeights = std::array<double, 3>;

    /// @param weights both models' weights of the first place, of the second, ...: a power of two
    ///        of places
    /// @param classes the names of the classes of words, in the order of their bits
    /// @throws std::invalid_argument if there is another number of weights
    HashedHead(std::vector<float> weights, std::vector<std::string> classes, GroupWeights groups);

    /// Bytes of a set of classes.
    [[nodiscard]] std::size_t set_bytes() const noexcept { return (classes_ + 7) / 8; }

    /// The log-odds of some sentences in a row: the sum of the groups, each the sum of its
    /// features' weights by the root of their number, times what the group counts for.
    /// @param words of all sentences, UTF-8
    /// @param sentences for each the class sets of its words that have any: class i is bit i % 8 of
    ///        byte i / 8, of set_bytes()
    [[nodiscard]] Two log_odds(std::span<const std::string_view> words,
                               std::span<const std::vector<std::string_view>> sentences) const;

private:
    struct Sum {
        Two value{};
        std::size_t count = 0;
    };

    void add(Sum& sum, std::uint32_t feature) const noexcept;
    [[nodiscard]] Sum runs(std::span<const std::string_view> words) const;
    [[nodiscard]] Sum letters(std::span<const std::string_view> words) const;
    void add_pairs(Sum& sum, std::span<const std::string_view> sets) const;

    std::vector<float> weights_;
    std::uint32_t mask_;
    std::size_t classes_;
    std::vector<std::array<float, 2>> pairs_;  // of each class alone, then before each class
    GroupWeights groups_;
};

}  // namespace flashbulb
