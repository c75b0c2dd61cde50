#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace flashbulb {

/// The rows of a store in lists, each around a centroid: an inverted file that holds nothing but
/// row numbers, 4 bytes for each list of a row. The rows themselves stay where they are. A row may
/// be in several lists, so that it is found from either side of a border between them.
///
/// Rows from rows() on, which came later, are in no list yet. Not synchronised.
class Partition {
public:
    /// How a query ranks the centroids.
    enum class Metric : std::uint8_t {
        inner_product,  ///< largest first
        l2,             ///< smallest distance first
    };

    /// @param centroids (lists, dim) values, row-major
    /// @throws std::invalid_argument if there is no centroid, a value is not finite, or the number
    ///         of values is no multiple of dim
    Partition(std::vector<float> centroids, std::size_t dim, Metric metric = Metric::inner_product);

    /// Values of a centroid.
    [[nodiscard]] std::size_t dim() const noexcept { return dim_; }
    /// Number of lists.
    [[nodiscard]] std::size_t lists() const noexcept { return members_.size(); }
    /// Rows that are in a list.
    [[nodiscard]] std::size_t rows() const noexcept { return rows_; }
    /// The centroids, (lists, dim).
    [[nodiscard]] const std::vector<float>& centroids() const noexcept { return centroids_; }
    /// The rows of a list, ascending. @pre list < lists()
    [[nodiscard]] std::span<const std::uint32_t> members(std::size_t list) const noexcept {
        return members_[list];
    }
    /// Bytes of the centroids and of the row numbers.
    [[nodiscard]] std::size_t memory_bytes() const noexcept;

    /// Puts each of the next rows, from rows() on, into `each` lists; row-major.
    /// @throws std::invalid_argument if there is no such list or not `each` of them for every row,
    ///         std::length_error beyond 2^32 rows; nothing is changed then
    void append(std::span<const std::uint32_t> lists, std::size_t each = 1);
    /// Forgets the rows from `count` on.
    void truncate(std::size_t count) noexcept;
    /// Keeps these rows (ascending, those of the store that stay), which become 0, 1, 2 ... Rows
    /// that are in no list stay so.
    void keep(std::span<const std::size_t> kept);

    /// Lists in the order in which the query ranks them: at least `least` of them, and as many as
    /// hold `wanted` rows together (one in two lists counts twice); all, if there are fewer.
    [[nodiscard]] std::vector<std::uint32_t> nearest(const float* query, std::size_t least,
                                                     std::size_t wanted) const;

private:
    std::size_t dim_;
    std::vector<float> centroids_;
    std::vector<float> offsets_;  // added to the inner product with the query
    std::vector<std::vector<std::uint32_t>> members_;
    std::size_t rows_ = 0;
};

}  // namespace flashbulb
