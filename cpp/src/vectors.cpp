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

namespace {

double squared_norm(const float* row, std::size_t dim) noexcept {
    double sum = 0.0;
    for (std::size_t i = 0; i < dim; ++i) {
        sum += static_cast<double>(row[i]) * static_cast<double>(row[i]);
    }
    return sum;
}

}  // namespace

std::size_t normalize_rows(const float* rows, std::size_t count, std::size_t dim,
                           float* out) noexcept {
    for (std::size_t row = 0; row < count; ++row) {
        const float* source = rows + row * dim;
        // The largest finite float32 squared, times any dim, is far inside float64.
        const double norm = std::sqrt(squared_norm(source, dim));
        if (!(norm > 0.0) || !std::isfinite(norm)) return row;
        for (std::size_t i = 0; i < dim; ++i) {
            out[row * dim + i] = static_cast<float>(static_cast<double>(source[i]) / norm);
        }
    }
    return count;
}

std::size_t first_row_not_unit(const float* rows, std::size_t count, std::size_t dim,
                               double tolerance) noexcept {
    for (std::size_t row = 0; row < count; ++row) {
        const double norm = std::sqrt(squared_norm(rows + row * dim, dim));
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
