#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace flashbulb {

/// How the values of a row are stored.
enum class Encoding : std::uint8_t {
    float32,
    float16,  ///< IEEE half, as the FAISS quantiser QT_fp16
    uint8,    ///< codes of a trained FAISS quantiser, QT_8bit or QT_8bit_uniform
};

/// How far the norm of a decoded row may be from 1: what rounding of a unit row leaves (float32:
/// 1e-5, float16: 1e-3), or what a quantiser trained on rows of the same kind does (uint8: 0.05).
[[nodiscard]] double norm_tolerance(Encoding encoding) noexcept;

/// What is stored for a row. A uint8 code c of dimension i means, in float32 and in this order,
/// minimum[i] + ((c + 0.5) / 255) * range[i]: the formula of FAISS, no step fused with another.
/// (FAISS itself fuses the last two where it has vector code for the dim, so that its own decoded
/// values differ in the last bit from one processor to the next. These do not.)
struct RowFormat {
    std::size_t dim = 0;                    ///< values of a row
    Encoding encoding = Encoding::float32;  ///< of each value
    std::vector<float> minimum{};           ///< dim values for uint8, else none
    std::vector<float> range{};             ///< the same

    /// Bytes of a stored row; there is nothing between two rows.
    [[nodiscard]] std::size_t row_bytes() const noexcept;
};

/// A run of stored rows that somebody else owns, such as the codes of a FAISS index.
struct Segment {
    void* data;             ///< row after row, row_bytes() each
    std::size_t first_row;  ///< number of its first row in the whole view
    std::size_t count;      ///< rows
};

/// One of several runs over which the rows of a view are scattered, such as an inverted list.
struct RowList {
    void* data;         ///< row after row, row_bytes() each
    std::size_t count;  ///< rows
    /// dim values to add to each decoded row (a coarse centroid whose residuals are stored), or
    /// nullptr
    const float* offset = nullptr;
};

/// Rows 0 .. rows()-1 of a store, read as float32 whatever their encoding. The decoded row *is* the
/// vector of every definition: scores are exact with respect to it. Copies no row and owns none: a
/// view is valid until the storage behind it changes.
class VectorView {
public:
    /// Float32 rows in consecutive segments.
    /// @throws std::invalid_argument if dim is 0, a non-empty segment has no (or a misaligned)
    ///         address, or the segments do not follow each other without a gap from row 0.
    VectorView(std::vector<Segment> segments, std::size_t dim);

    /// Rows of any encoding in consecutive segments.
    /// @throws std::invalid_argument as above, or if the format lacks the values of its quantiser.
    VectorView(std::vector<Segment> segments, RowFormat format);

    /// Rows scattered over lists: row r is the one at places[r] = list << 32 | offset, as in a
    /// FAISS direct map. The places are not copied.
    /// @throws std::invalid_argument as above, or if a place lies outside its list.
    VectorView(std::vector<RowList> lists, std::span<const std::uint64_t> places, RowFormat format);

    /// Values of a row.
    [[nodiscard]] std::size_t dim() const noexcept { return format_.dim; }
    /// Rows of all runs.
    [[nodiscard]] std::size_t rows() const noexcept { return rows_; }
    /// What is stored for each row.
    [[nodiscard]] const RowFormat& format() const noexcept { return format_; }

    /// Whether the rows are float32 in segments, so that they can be read in place.
    [[nodiscard]] bool direct() const noexcept { return direct_; }
    /// The runs of rows; none if the rows are scattered.
    [[nodiscard]] const std::vector<Segment>& segments() const noexcept { return segments_; }

    /// No live row has a norm above this.
    [[nodiscard]] double norm_bound() const noexcept {
        return 1.0 + norm_tolerance(format_.encoding);
    }

    /// How many rows from `row` on one fetch gives without a copy; if each fetch copies anyway, all
    /// that are left. @pre row < rows()
    [[nodiscard]] std::size_t run(std::size_t row) const noexcept;

    /// A row as dim float32 values: in place if it is stored so, else decoded into `scratch`, which
    /// has room for dim values (it may be nullptr for a direct view). @pre row < rows()
    [[nodiscard]] const float* fetch(std::size_t row, float* scratch) const noexcept;

    /// `count` consecutive rows, row-major: in place if they lie so in one segment, else decoded or
    /// copied into `scratch`, which has room for count * dim values. @pre begin + count <= rows()
    [[nodiscard]] const float* fetch(std::size_t begin, std::size_t count,
                                     float* scratch) const noexcept;

    /// Address of a row of a direct view. @pre direct() and row < rows()
    [[nodiscard]] float* row(std::size_t row) const noexcept;

    /// Overwrites what is stored of a row with zero bytes (which as uint8 codes do not mean zeros:
    /// what is cleared must be excluded by other means).
    void clear(std::size_t row) const noexcept;

    /// Moves the rows `kept` (ascending) to rows 0 .. kept.size()-1.
    /// @throws std::invalid_argument if the rows are scattered.
    void keep(std::span<const std::size_t> kept) const;

private:
    struct Stored {
        std::byte* data;
        const float* offset;
    };
    [[nodiscard]] const Segment& segment_of(std::size_t row) const noexcept;
    [[nodiscard]] Stored stored(std::size_t row) const noexcept;

    RowFormat format_;
    std::vector<Segment> segments_;
    std::vector<RowList> lists_;
    std::span<const std::uint64_t> places_;
    std::size_t rows_ = 0;
    bool direct_ = false;
};

/// Scales rows to unit L2 norm: out = row / ||row||, the norm in float64.
/// @return the number of the first row that is not finite or has norm 0, or `count` if all are
///         good. That one is not written; those after it may be.
[[nodiscard]] std::size_t normalize_rows(const float* rows, std::size_t count, std::size_t dim,
                                         float* out);

/// The first row whose norm differs from 1 by more than `tolerance` or is not finite; rows() if
/// there is none.
[[nodiscard]] std::size_t first_row_not_unit(const VectorView& view, double tolerance);

/// The one definition of similarity: float64 inner product of two float32 vectors.
[[nodiscard]] double inner_product(const float* a, const float* b, std::size_t dim);

}  // namespace flashbulb
