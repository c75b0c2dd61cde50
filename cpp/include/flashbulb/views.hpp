#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace flashbulb {

/// A run of float32 rows that somebody else owns, such as the storage of a FAISS flat index.
struct Segment {
    float* data;            ///< row-major, count * dim values
    std::size_t first_row;  ///< number of its first row in the whole view
    std::size_t count;
};

/// Rows 0 .. rows()-1 of a store, as consecutive segments. Copies nothing and owns nothing: it is
/// valid until the storage behind it grows or moves.
class VectorView {
public:
    /// @throws std::invalid_argument if dim is 0, a non-empty segment has no address, or the
    ///         segments do not follow each other without a gap from row 0.
    VectorView(std::vector<Segment> segments, std::size_t dim);

    [[nodiscard]] std::size_t dim() const noexcept { return dim_; }
    [[nodiscard]] std::size_t rows() const noexcept { return rows_; }
    [[nodiscard]] const std::vector<Segment>& segments() const noexcept { return segments_; }

    /// Address of a row. @pre row < rows()
    [[nodiscard]] float* row(std::size_t row) const noexcept;

private:
    std::vector<Segment> segments_;
    std::size_t dim_;
    std::size_t rows_;
};

/// Scales rows to unit L2 norm: out = row / ||row||, the norm in float64.
/// @return the number of the first row that is not finite or has norm 0, or `count` if all are
///         good; rows from that one on are not written.
[[nodiscard]] std::size_t normalize_rows(const float* rows, std::size_t count, std::size_t dim,
                                         float* out);

/// The first row whose norm differs from 1 by more than `tolerance` or is not finite; `count` if
/// there is none.
[[nodiscard]] std::size_t first_row_not_unit(const float* rows, std::size_t count, std::size_t dim,
                                             double tolerance);

/// Moves the rows `kept` (ascending) to rows 0 .. kept.size()-1.
void keep_rows(const VectorView& view, const std::vector<std::size_t>& kept) noexcept;

/// The one definition of similarity: float64 inner product of two float32 vectors.
[[nodiscard]] double inner_product(const float* a, const float* b, std::size_t dim);

}  // namespace flashbulb
