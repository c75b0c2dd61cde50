#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "flashbulb/search.hpp"
#include "flashbulb/traces.hpp"

namespace flashbulb {

/// Rows that are looked at together: their masks, bonus and scores stay in the first cache level,
/// and their vectors in the second.
inline constexpr std::size_t block_rows = 256;

/// Goes through ascending rows, forward only.
class Cursor {
public:
    /// Starts at the first row that is not below `begin`.
    Cursor(const std::vector<std::size_t>& sorted, std::size_t begin);

    /// The first row from `begin` on, or `otherwise`.
    std::size_t next(std::size_t begin, std::size_t otherwise) {
        while (place_ < sorted_->size() && (*sorted_)[place_] < begin) ++place_;
        return place_ < sorted_->size() ? (*sorted_)[place_] : otherwise;
    }

    /// Calls action(row, place in the list) for the rows inside [begin, end).
    template <class Visit>
    void visit(std::size_t begin, std::size_t end, Visit&& action) {
        for (std::size_t row = next(begin, end); row < end; row = next(row + 1, end)) {
            action(row, place_);
        }
    }

private:
    const std::vector<std::size_t>* sorted_;
    std::size_t place_;
};

/// Whether the filter has regard to the time of a memory.
[[nodiscard]] bool has_window(const Filter& filter) noexcept;

/// Which rows of a block may enter a result. Blocks are asked for in ascending order.
class BlockFilter {
public:
    /// For blocks from row `begin` on.
    BlockFilter(const TraceTable& traces, const Filter& filter, std::size_t begin);

    /// The first row from `begin` on that is worth asking about; `end` if there is none before it.
    [[nodiscard]] std::size_t next(std::size_t begin, std::size_t end);

    /// Fills mask[0 .. count) for the rows from `begin`. @return how many pass.
    std::size_t operator()(std::size_t begin, std::size_t count, std::uint8_t* mask);

    /// Keeps those of the rows begin + places[0 .. count) (ascending) that pass, whether `allowed`
    /// names them or not. @return how many do.
    std::size_t keep(std::size_t begin, std::uint16_t* places, std::size_t count);

private:
    const TraceTable& traces_;
    TraceTable::Columns columns_;
    const Filter& filter_;
    bool has_window_;
    std::uint64_t wanted_bloom_;
    std::uint8_t care_ = TraceTable::dead;
    std::uint8_t want_ = 0;
    bool passes_all_ = false;  // whatever `allowed` names
    std::vector<std::size_t> no_rows_;
    Cursor exempt_;
    Cursor allowed_;
};

}  // namespace flashbulb
