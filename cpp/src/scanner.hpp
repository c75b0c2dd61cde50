#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "flashbulb/sketch.hpp"
#include "flashbulb/views.hpp"

namespace flashbulb {

/// Rows that are looked at together: their masks, bonus and scores stay in the first cache level,
/// and their vectors in the second, where the next query of a batch finds them.
inline constexpr std::size_t block_rows = 256;

/// A block of rows that lies in one piece in the vectors and in the sketch.
struct Block {
    std::size_t begin;
    std::size_t count;         ///< at most block_rows
    const float* vectors;      ///< its first row
    const std::uint8_t* mask;  ///< which rows are wanted
    std::size_t wanted;
};

/// Approximate cosines of queries to blocks of rows, with bounds of their errors.
class Scanner {
public:
    virtual ~Scanner() = default;

    /// cosines[i] and errors[i] for the rows of the block (the wanted ones at least):
    /// |cosines[i] - exact cosine| <= errors[i].
    virtual void scan(std::size_t query, const Block& block, float* cosines,
                      double* errors) const = 0;
};

/// What rounding can hide in a float32 inner product of unit vectors (norms within 1e-5 of 1):
/// (d + 8) 2^-24 |q||x|.
[[nodiscard]] double float32_error(std::size_t dim) noexcept;

/// Scans the rows themselves in float32.
[[nodiscard]] std::unique_ptr<Scanner> scan_rows(const float* queries, std::size_t dim);

/// Scans int8 codes.
[[nodiscard]] std::unique_ptr<Scanner> scan_sketch(const Int8Sketch& sketch, const float* queries,
                                                   std::size_t query_count);

/// Calls visit(begin, count, address of the first row) for consecutive pieces of at most
/// block_rows that lie in one segment, and in one chunk of the sketch if there is one.
template <class Visit>
void for_each_block(const VectorView& vectors, const Int8Sketch* sketch, Visit&& visit) {
    for (const Segment& segment : vectors.segments()) {
        for (std::size_t done = 0; done < segment.count;) {
            const std::size_t begin = segment.first_row + done;
            std::size_t count =
                segment.count - done < block_rows ? segment.count - done : block_rows;
            if (sketch != nullptr && sketch->run(begin).count < count) {
                count = sketch->run(begin).count;
            }
            visit(begin, count, vectors.row(begin));
            done += count;
        }
    }
}

}  // namespace flashbulb
