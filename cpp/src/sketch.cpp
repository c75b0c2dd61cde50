#include "flashbulb/sketch.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>

#include "dispatch.hpp"

namespace flashbulb {

namespace {
constexpr std::size_t alignment = 64;
constexpr std::size_t smallest_capacity = 256;
constexpr std::size_t huge_page = std::size_t{2} << 20U;

// A scan of many gigabytes a second spends much of its time on the translation of addresses: large
// runs of codes lie in huge pages where the system has them (measured: 1.4 times faster).
std::int8_t* allocate_codes(std::size_t bytes) {
    const std::size_t unit = bytes >= huge_page ? huge_page : alignment;
    const std::size_t whole = (bytes + unit - 1) / unit * unit;
    void* codes = std::aligned_alloc(unit, whole);
    if (codes == nullptr) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
    if (unit == huge_page) madvise(codes, whole, MADV_HUGEPAGE);  // advice: it may be refused
#endif
    return static_cast<std::int8_t*>(codes);
}

}  // namespace

void Int8Sketch::FreeAligned::operator()(std::int8_t* p) const noexcept { std::free(p); }

Int8Sketch::Int8Sketch(std::size_t dim)
    : dim_(dim), stride_((dim + alignment - 1) / alignment * alignment) {
    if (dim == 0) throw std::invalid_argument("a sketch needs dim >= 1, got 0");
}

void Int8Sketch::reserve(Chunk& chunk, std::size_t used, std::size_t wanted) const {
    if (wanted <= chunk.capacity) return;
    // The first chunk of a small store doubles; the later ones of a large store come whole.
    const std::size_t capacity =
        &chunk == &chunks_.front()
            ? std::min(chunk_rows, std::max({wanted, 2 * chunk.capacity, smallest_capacity}))
            : chunk_rows;
    std::unique_ptr<std::int8_t[], FreeAligned> codes(allocate_codes(capacity * stride_));
    chunk.scales.resize(capacity);
    chunk.residuals.resize(capacity);
    if (used > 0) std::memcpy(codes.get(), chunk.codes.get(), used * stride_);
    chunk.codes = std::move(codes);
    chunk.capacity = capacity;
}

void Int8Sketch::encode(const VectorView& vectors, std::size_t row) {
    Chunk& chunk = chunks_[row / chunk_rows];
    const std::size_t place = row % chunk_rows;
    active_kernels().encode_int8(vectors.row(row), dim_, stride_,
                                 chunk.codes.get() + place * stride_, &chunk.scales[place],
                                 &chunk.residuals[place]);
}

void Int8Sketch::extend(const VectorView& vectors) {
    if (vectors.dim() != dim_ || vectors.rows() < rows_) {
        throw std::invalid_argument("the view does not hold the rows of this sketch");
    }
    // All memory first: a failed allocation leaves the rows as they were.
    for (std::size_t begin = rows_; begin < vectors.rows();) {
        const std::size_t number = begin / chunk_rows;
        if (number == chunks_.size()) chunks_.emplace_back();
        const std::size_t end = std::min(vectors.rows(), (number + 1) * chunk_rows);
        reserve(chunks_[number], begin % chunk_rows, end - number * chunk_rows);
        begin = end;
    }
    for (; rows_ < vectors.rows(); ++rows_) encode(vectors, rows_);
}

void Int8Sketch::update(const VectorView& vectors, std::size_t row) {
    if (row >= rows_ || vectors.rows() < rows_) {
        throw std::invalid_argument("the sketch has no such row");
    }
    encode(vectors, row);
}

void Int8Sketch::truncate(std::size_t count) noexcept {
    rows_ = std::min(rows_, count);
    const std::size_t needed = (rows_ + chunk_rows - 1) / chunk_rows;
    chunks_.erase(chunks_.begin() + static_cast<std::ptrdiff_t>(needed), chunks_.end());
}

Int8Sketch::Run Int8Sketch::run(std::size_t row) const noexcept {
    const Chunk& chunk = chunks_[row / chunk_rows];
    const std::size_t place = row % chunk_rows;
    const std::size_t end = std::min(chunk_rows, rows_ - row / chunk_rows * chunk_rows);
    return {chunk.codes.get() + place * stride_, chunk.scales.data() + place,
            chunk.residuals.data() + place, end - place};
}

}  // namespace flashbulb
