#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "flashbulb/views.hpp"

namespace flashbulb {

/// Quantised copies of unit rows, in which a search looks for the few rows that it must score from
/// the originals: by bounds on what quantisation can hide, so that the result is exact, and as much
/// faster as there are fewer bytes to read.
///
/// A row is rotated (which spreads its values evenly, whatever they were), coded in 8 bits a value,
/// and stored as two planes of 4 bits: one plane alone gives coarse cosines for half the bytes, the
/// second refines the rows that matter.
///
/// Rows lie in chunks of 65,536; a full chunk never moves. Not synchronised.
class Sketch {
public:
    /// Sums of products of codes fit into 32 bits up to here.
    static constexpr std::size_t largest_dim = 32768;
    static constexpr std::size_t chunk_rows = 65536;  ///< rows of a full chunk

    /// @throws std::invalid_argument if dim is 0 or above largest_dim
    explicit Sketch(std::size_t dim);

    /// Room for the codes of `rows` rows, which are still to be put there, see stored().
    /// @throws as above
    Sketch(std::size_t dim, std::size_t rows);

    /// Values of a row.
    [[nodiscard]] std::size_t dim() const noexcept { return dim_; }
    /// Rows that are coded here.
    [[nodiscard]] std::size_t rows() const noexcept { return rows_; }
    /// Bytes of a row in one plane: half a byte a value, padded to a multiple of 64.
    [[nodiscard]] std::size_t stride() const noexcept { return stride_; }
    /// Bytes of a row here: two planes, scale and two residuals.
    [[nodiscard]] std::size_t row_bytes() const noexcept { return 2 * stride_ + 3 * sizeof(float); }

    /// @throws std::invalid_argument unless it has as many rows of the same dim as the view
    void require_rows_of(const VectorView& vectors) const;

    /// Codes the rows of the view that are not here yet.
    void extend(const VectorView& vectors);
    /// Codes one row anew, after it changed.
    void update(const VectorView& vectors, std::size_t row);
    /// Forgets the rows from `count` on.
    void truncate(std::size_t count) noexcept;

    /// The rows from `row` to the end of its chunk. With u = 16 * high + low, a rotated row is
    /// scale * (u - 128) up to a vector of norm residual8, and scale * (16 * high - 120.5) up to
    /// residual4. In a plane, byte 64 c + j of a row (j < 64) holds the values 128 c + j and, in
    /// its upper half, 128 c + 64 + j.
    struct Run {
        const std::uint8_t* high;  ///< aligned to 64 bytes, as is low
        const std::uint8_t* low;   ///< as many bytes, stride() a row
        const float* scales;       ///< one a row, as the residuals
        const float* residuals4;   ///< of the high plane alone, rounded up
        const float* residuals8;   ///< of both planes, rounded up
        std::size_t count;         ///< rows
    };
    /// Where the codes lie. @pre row < rows()
    [[nodiscard]] Run run(std::size_t row) const noexcept;

    /// Where the codes of a whole chunk are to be put, by whoever stored them.
    struct Stored {
        std::span<std::uint8_t> codes;  ///< the high plane of its rows, then the low one
        std::span<float> scales;        ///< one a row, as the residuals
        std::span<float> residuals4;    ///< as in Run
        std::span<float> residuals8;    ///< as in Run
    };
    /// One for each chunk of a sketch that was made with its number of rows.
    [[nodiscard]] std::vector<Stored> stored();

    /// Whether the codes of a row are what it would be coded as now: not those of another rotation
    /// or another way of coding. @pre row < rows(), and the view has it
    [[nodiscard]] bool has_codes_of(const VectorView& vectors, std::size_t row) const;

    /// The rotation: orthogonal up to `rotation_error`, the same for every sketch of this dim.
    /// @param out dim() values
    void rotate(const float* values, float* out) const;
    /// |rotated - exactly rotated| is at most this times the norm.
    [[nodiscard]] double rotation_error() const noexcept;

private:
    struct FreeAligned {
        void operator()(std::uint8_t* p) const noexcept;
    };
    struct Chunk {
        std::unique_ptr<std::uint8_t[], FreeAligned> codes;  // the high plane, then the low one
        std::vector<float> scales;
        std::vector<float> residuals4;
        std::vector<float> residuals8;
        std::size_t capacity = 0;
    };

    void reserve(Chunk& chunk, std::size_t used, std::size_t wanted) const;
    void rotate_row(const VectorView& vectors, std::size_t row, std::vector<float>& buffer) const;
    void encode(const VectorView& vectors, std::size_t row);

    std::size_t dim_;
    std::size_t stride_;
    std::size_t width_;  // of a Hadamard transform: the largest power of two up to dim
    std::size_t stages_;
    std::vector<float> factors_;  // signs with the scale of a transform, width_ of them a stage
    std::size_t rows_ = 0;
    std::vector<Chunk> chunks_;
};

}  // namespace flashbulb
