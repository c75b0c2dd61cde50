#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

#include "dispatch.hpp"
#include "flashbulb/thread_pool.hpp"
#include "flashbulb/views.hpp"

namespace flashbulb {

namespace {

std::size_t value_bytes(Encoding encoding) noexcept {
    switch (encoding) {
        case Encoding::float16:
            return 2;
        case Encoding::uint8:
            return 1;
        case Encoding::float32:
            break;
    }
    return sizeof(float);
}

void require_format(const RowFormat& format) {
    if (format.dim == 0) throw std::invalid_argument("a vector view needs dim >= 1, got 0");
    const std::size_t wanted = format.encoding == Encoding::uint8 ? format.dim : 0;
    if (format.minimum.size() != wanted || format.range.size() != wanted) {
        throw std::invalid_argument(
            "expected " + std::to_string(wanted) + " minima and ranges of a quantiser, got " +
            std::to_string(format.minimum.size()) + " and " + std::to_string(format.range.size()));
    }
}

void require_address(const void* data, std::size_t count, const RowFormat& format) {
    if (count == 0) return;
    if (data == nullptr) {
        throw std::invalid_argument("a segment of " + std::to_string(count) +
                                    " rows has no address");
    }
    if (reinterpret_cast<std::uintptr_t>(data) % value_bytes(format.encoding) != 0) {
        throw std::invalid_argument("the address of a segment is not aligned to its values");
    }
}

void decode(const RowFormat& format, const std::byte* stored, const float* offset,
            float* out) noexcept {
    const auto& kernels = active_kernels();
    switch (format.encoding) {
        case Encoding::float32:
            std::memcpy(out, stored, format.row_bytes());
            break;
        case Encoding::float16:
            kernels.decode_float16(reinterpret_cast<const std::uint16_t*>(stored), format.dim, out);
            break;
        case Encoding::uint8:
            kernels.decode_uint8(reinterpret_cast<const std::uint8_t*>(stored),
                                 format.minimum.data(), format.range.data(), format.dim, out);
            break;
    }
    if (offset != nullptr) {
        for (std::size_t i = 0; i < format.dim; ++i) out[i] += offset[i];
    }
}

// The first place in [0, count) that `find(begin, end)` gives for one of several ranges; it gives
// `end` if there is none. `count` if all do.
template <class Find>
std::size_t first_found(std::size_t count, std::size_t bytes_each, Find&& find) {
    std::atomic<std::size_t> first{count};
    run_ranges(count, bytes_each, [&](std::size_t begin, std::size_t end) {
        const std::size_t found = find(begin, end);
        if (found == end) return;
        std::size_t before = first;
        while (found < before && !first.compare_exchange_weak(before, found)) {
        }
    });
    return first;
}

}  // namespace

double norm_tolerance(Encoding encoding) noexcept {
    switch (encoding) {
        case Encoding::float16:
            return 1e-3;
        case Encoding::uint8:
            return 0.05;
        case Encoding::float32:
            break;
    }
    return 1e-5;
}

std::size_t RowFormat::row_bytes() const noexcept { return dim * value_bytes(encoding); }

VectorView::VectorView(std::vector<Segment> segments, std::size_t dim)
    : VectorView(std::move(segments), RowFormat{dim}) {}

VectorView::VectorView(std::vector<Segment> segments, RowFormat format)
    : format_(std::move(format)),
      segments_(std::move(segments)),
      direct_(format_.encoding == Encoding::float32) {
    require_format(format_);
    std::erase_if(segments_, [](const Segment& segment) { return segment.count == 0; });
    for (const Segment& segment : segments_) {
        require_address(segment.data, segment.count, format_);
        if (segment.first_row != rows_) {
            throw std::invalid_argument("a segment starts at row " +
                                        std::to_string(segment.first_row) + ", expected " +
                                        std::to_string(rows_));
        }
        rows_ += segment.count;
    }
}

VectorView::VectorView(std::vector<RowList> lists, std::span<const std::uint64_t> places,
                       RowFormat format)
    : format_(std::move(format)), lists_(std::move(lists)), places_(places), rows_(places.size()) {
    require_format(format_);
    for (const RowList& list : lists_) require_address(list.data, list.count, format_);
    for (const std::uint64_t place : places_) {
        const std::uint64_t list = place >> 32U;
        const std::uint64_t offset = place & 0xFFFFFFFFU;
        if (list >= lists_.size() || offset >= lists_[list].count) {
            throw std::invalid_argument("row " + std::to_string(offset) + " of list " +
                                        std::to_string(list) + " is not there");
        }
    }
}

const Segment& VectorView::segment_of(std::size_t row) const noexcept {
    const auto after = std::upper_bound(
        segments_.begin(), segments_.end(), row,
        [](std::size_t value, const Segment& segment) { return value < segment.first_row; });
    return *std::prev(after);
}

VectorView::Stored VectorView::stored(std::size_t row) const noexcept {
    if (!places_.empty()) {
        const RowList& list = lists_[places_[row] >> 32U];
        const std::size_t offset = places_[row] & 0xFFFFFFFFU;
        return {static_cast<std::byte*>(list.data) + offset * format_.row_bytes(), list.offset};
    }
    const Segment& segment = segment_of(row);
    const std::size_t offset = row - segment.first_row;
    return {static_cast<std::byte*>(segment.data) + offset * format_.row_bytes(), nullptr};
}

std::size_t VectorView::run(std::size_t row) const noexcept {
    if (!direct_) return rows_ - row;
    const Segment& segment = segment_of(row);
    return segment.first_row + segment.count - row;
}

float* VectorView::row(std::size_t row) const noexcept {
    return reinterpret_cast<float*>(stored(row).data);
}

const float* VectorView::fetch(std::size_t row, float* scratch) const noexcept {
    const Stored source = stored(row);
    if (format_.encoding == Encoding::float32 && source.offset == nullptr) {
        return reinterpret_cast<const float*>(source.data);
    }
    decode(format_, source.data, source.offset, scratch);
    return scratch;
}

const float* VectorView::fetch(std::size_t begin, std::size_t count,
                               float* scratch) const noexcept {
    if (count == 0) return scratch;
    if (direct_ && run(begin) >= count) return row(begin);
    for (std::size_t i = 0; i < count; ++i) {
        const Stored source = stored(begin + i);
        decode(format_, source.data, source.offset, scratch + i * dim());
    }
    return scratch;
}

void VectorView::clear(std::size_t row) const noexcept {
    std::memset(stored(row).data, 0, format_.row_bytes());
}

void VectorView::keep(std::span<const std::size_t> kept) const {
    if (!places_.empty()) throw std::invalid_argument("scattered rows cannot be moved to a front");
    for (std::size_t target = 0; target < kept.size(); ++target) {
        if (kept[target] == target) continue;
        std::memcpy(stored(target).data, stored(kept[target]).data, format_.row_bytes());
    }
}

std::size_t normalize_rows(const float* rows, std::size_t count, std::size_t dim, float* out) {
    const auto& kernels = active_kernels();
    const auto first_bad = [&](std::size_t begin, std::size_t end) {
        for (std::size_t row = begin; row < end; ++row) {
            const float* source = rows + row * dim;
            // The largest finite float32 squared, times any dim, is far inside float64.
            const double norm = std::sqrt(kernels.inner_product(source, source, dim));
            if (!(norm > 0.0) || !std::isfinite(norm)) return row;
            kernels.divide(source, norm, dim, out + row * dim);
        }
        return end;
    };
    return first_found(count, 2 * dim * sizeof(float), first_bad);
}

std::size_t first_row_not_unit(const VectorView& view, double tolerance) {
    const auto& kernels = active_kernels();
    const auto first_bad = [&](std::size_t begin, std::size_t end) {
        std::vector<float> scratch(view.dim());
        for (std::size_t row = begin; row < end; ++row) {
            const float* values = view.fetch(row, scratch.data());
            const double norm = std::sqrt(kernels.inner_product(values, values, view.dim()));
            if (!(std::abs(norm - 1.0) <= tolerance)) return row;
        }
        return end;
    };
    return first_found(view.rows(), view.format().row_bytes(), first_bad);
}

double inner_product(const float* a, const float* b, std::size_t dim) {
    return active_kernels().inner_product(a, b, dim);
}

}  // namespace flashbulb
