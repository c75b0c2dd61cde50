#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

#include "dispatch.hpp"
#include "flashbulb/views.hpp"

namespace flashbulb {

VectorView::VectorView(std::vector<Segment> segments, std::size_t dim)
    : segments_(std::move(segments)), dim_(dim), rows_(0) {
    if (dim_ == 0) throw std::invalid_argument("a vector view needs dim >= 1, got 0");
    std::erase_if(segments_, [](const Segment& segment) { return segment.count == 0; });
    for (const Segment& segment : segments_) {
        if (segment.data == nullptr) {
            throw std::invalid_argument("a segment of " + std::to_string(segment.count) +
                                        " rows has no address");
        }
        if (segment.first_row != rows_) {
            throw std::invalid_argument("a segment starts at row " +
                                        std::to_string(segment.first_row) + ", expected " +
                                        std::to_string(rows_));
        }
        rows_ += segment.count;
    }
}

float* VectorView::row(std::size_t row) const noexcept {
    auto after = std::upper_bound(
        segments_.begin(), segments_.end(), row,
        [](std::size_t value, const Segment& segment) { return value < segment.first_row; });
    const Segment& segment = *std::prev(after);
    return segment.data + (row - segment.first_row) * dim_;
}

std::size_t normalize_rows(const float* rows, std::size_t count, std::size_t dim, float* out) {
    const auto& kernels = active_kernels();
    for (std::size_t row = 0; row < count; ++row) {
        const float* source = rows + row * dim;
        // The largest finite float32 squared, times any dim, is far inside float64.
        const double norm = std::sqrt(kernels.inner_product(source, source, dim));
        if (!(norm > 0.0) || !std::isfinite(norm)) return row;
        kernels.divide(source, norm, dim, out + row * dim);
    }
    return count;
}

std::size_t first_row_not_unit(const float* rows, std::size_t count, std::size_t dim,
                               double tolerance) {
    const auto& kernels = active_kernels();
    for (std::size_t row = 0; row < count; ++row) {
        const float* values = rows + row * dim;
        const double norm = std::sqrt(kernels.inner_product(values, values, dim));
        if (!(std::abs(norm - 1.0) <= tolerance)) return row;
    }
    return count;
}

void keep_rows(const VectorView& view, const std::vector<std::size_t>& kept) noexcept {
    const std::size_t bytes = view.dim() * sizeof(float);
    for (std::size_t target = 0; target < kept.size(); ++target) {
        if (kept[target] != target) {
            std::memcpy(view.row(target), view.row(kept[target]), bytes);
        }
    }
}

double inner_product(const float* a, const float* b, std::size_t dim) {
    return active_kernels().inner_product(a, b, dim);
}

}  // namespace flashbulb
