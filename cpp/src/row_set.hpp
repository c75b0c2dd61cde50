#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace flashbulb {

/// A set of rows below a limit, one bit each.
class RowSet {
public:
    explicit RowSet(std::size_t limit) : limit_(limit), words_((limit + 63) / 64) {}

    [[nodiscard]] std::size_t limit() const noexcept { return limit_; }
    /// Number of rows in the set.
    [[nodiscard]] std::size_t size() const noexcept {
        std::size_t count = 0;
        for (const std::uint64_t word : words_)
            count += static_cast<std::size_t>(std::popcount(word));
        return count;
    }
    /// The bits of 64 rows each, in ascending order.
    [[nodiscard]] std::span<std::uint64_t> words() noexcept { return words_; }

    /// @pre row < limit()
    void insert(std::size_t row) noexcept { words_[row / 64] |= std::uint64_t{1} << row % 64; }

    /// Inserts those of the rows (ascending) that are below the limit.
    template <class Rows>
    void insert_all(const Rows& rows) noexcept {
        for (const auto row : rows) {
            if (row >= limit_) return;
            insert(row);
        }
    }

    /// Keeps what the other set has as well. @pre the limits are equal
    void intersect(const RowSet& other) noexcept {
        for (std::size_t i = 0; i < words_.size(); ++i) words_[i] &= other.words_[i];
    }

    /// Drops what the other set has. @pre the limits are equal
    void subtract(const RowSet& other) noexcept {
        for (std::size_t i = 0; i < words_.size(); ++i) words_[i] &= ~other.words_[i];
    }

    /// Calls action(row) for the rows in [begin, end), ascending. @pre begin is a multiple of 64
    template <class Action>
    void visit(std::size_t begin, std::size_t end, Action&& action) const {
        end = std::min(end, limit_);
        for (std::size_t word = begin / 64; word * 64 < end; ++word) {
            for (std::uint64_t bits = words_[word]; bits != 0; bits &= bits - 1) {
                const std::size_t row =
                    word * 64 + static_cast<std::size_t>(std::countr_zero(bits));
                if (row >= end) return;
                action(row);
            }
        }
    }

private:
    std::size_t limit_;
    std::vector<std::uint64_t> words_;
};

}  // namespace flashbulb
