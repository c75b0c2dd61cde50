#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "flashbulb/views.hpp"

namespace flashbulb {

/// int8 copies of unit rows, a quarter of their bytes. A search scans these and, by a bound on what
/// rounding can hide, knows which few rows it must score from the originals: exact, and as much
/// faster as there are fewer bytes to read.
///
/// Rows lie in chunks of 65,536; a full chunk never moves. Not synchronised.
class Int8Sketch {
public:
    /// @throws std::invalid_argument if dim is 0
    explicit Int8Sketch(std::size_t dim);

    [[nodiscard]] std::size_t dim() const noexcept { return dim_; }
    [[nodiscard]] std::size_t rows() const noexcept { return rows_; }
    /// Bytes of a row here: its codes, padded to a multiple of 64, scale and residual.
    [[nodiscard]] std::size_t row_bytes() const noexcept { return stride_ + 2 * sizeof(float); }

    /// Codes the rows of the view that are not here yet.
    void extend(const VectorView& vectors);
    /// Codes one row anew, after it changed.
    void update(const VectorView& vectors, std::size_t row);
    /// Forgets the rows from `count` on.
    void truncate(std::size_t count) noexcept;

    /// Codes, scales and residuals of the rows from `row` to the end of its chunk.
    struct Run {
        const std::int8_t* codes;  ///< aligned to 64 bytes
        const float* scales;
        const float* residuals;  ///< |row - scale * codes|, rounded up
        std::size_t count;
    };
    [[nodiscard]] Run run(std::size_t row) const noexcept;
    [[nodiscard]] std::size_t stride() const noexcept { return stride_; }

private:
    static constexpr std::size_t chunk_rows = 65536;

    struct FreeAligned {
        void operator()(std::int8_t* p) const noexcept;
    };
    struct Chunk {
        std::unique_ptr<std::int8_t[], FreeAligned> codes;
        std::vector<float> scales;
        std::vector<float> residuals;
        std::size_t capacity = 0;
    };

    void reserve(Chunk& chunk, std::size_t used, std::size_t wanted) const;
    void encode(const VectorView& vectors, std::size_t row);

    std::size_t dim_;
    std::size_t stride_;
    std::size_t rows_ = 0;
    std::vector<Chunk> chunks_;
};

}  // namespace flashbulb
