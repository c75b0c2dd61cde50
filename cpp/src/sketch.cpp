#include "flashbulb/sketch.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string>

#include "dispatch.hpp"
#include "flashbulb/thread_pool.hpp"

namespace flashbulb {

namespace {
constexpr std::size_t alignment = 64;
constexpr std::size_t smallest_capacity = 256;

// To code a row takes as long as to read so many.
constexpr std::size_t coding = 4;

constexpr std::size_t huge_page = std::size_t{2} << 20U;

// A scan of many gigabytes a second spends much of its time on the translation of addresses: large
// runs of codes lie in huge pages where the system has them (measured: 1.4 times faster).
std::uint8_t* allocate_codes(std::size_t bytes) {
    const std::size_t unit = bytes >= huge_page ? huge_page : alignment;
    const std::size_t whole = (bytes + unit - 1) / unit * unit;
    void* codes = std::aligned_alloc(unit, whole);
    if (codes == nullptr) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
    if (unit == huge_page) madvise(codes, whole, MADV_HUGEPAGE);  // advice: it may be refused
#endif
    return static_cast<std::uint8_t*>(codes);
}

// Steele, Lea, Flood (2014), "Fast splittable pseudorandom number generators": splitmix64.
std::uint64_t next_random(std::uint64_t& state) {
    state += 0x9E3779B97F4A7C15U;
    std::uint64_t z = state;
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31U);
}

}  // namespace

void Sketch::FreeAligned::operator()(std::uint8_t* p) const noexcept { std::free(p); }

Sketch::Sketch(std::size_t dim)
    : dim_(dim), stride_((dim + 2 * alignment - 1) / (2 * alignment) * alignment) {
    if (dim == 0 || dim > largest_dim) {
        throw std::invalid_argument("a sketch needs dim in 1 .. " + std::to_string(largest_dim) +
                                    ", got " + std::to_string(dim));
    }
    // Transforms of the first and of the last `width` values in turn mix all of them.
    width_ = std::bit_floor(dim);
    stages_ = width_ == dim ? 2 : 4;
    const auto scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(width_)));
    std::uint64_t state = 0;
    factors_.resize(stages_ * width_);
    for (float& factor : factors_) factor = next_random(state) >> 63U != 0 ? -scale : scale;
}

Sketch::Sketch(std::size_t dim, std::size_t rows) : Sketch(dim) {
    for (std::size_t begin = 0; begin < rows; begin += chunk_rows) {
        Chunk chunk;
        chunk.capacity = std::min(chunk_rows, rows - begin);
        chunk.codes.reset(allocate_codes(2 * chunk.capacity * stride_));
        chunk.scales.resize(chunk.capacity);
        chunk.residuals4.resize(chunk.capacity);
        chunk.residuals8.resize(chunk.capacity);
        chunks_.push_back(std::move(chunk));
    }
    rows_ = rows;
}

std::vector<Sketch::Stored> Sketch::stored() {
    std::vector<Stored> result;
    for (Chunk& chunk : chunks_) {
        result.push_back({{chunk.codes.get(), 2 * chunk.capacity * stride_},
                          chunk.scales,
                          chunk.residuals4,
                          chunk.residuals8});
    }
    return result;
}

void Sketch::require_rows_of(const VectorView& vectors) const {
    if (rows_ == vectors.rows() && dim_ == vectors.dim()) return;
    throw std::invalid_argument("expected a sketch of " + std::to_string(vectors.rows()) +
                                " rows of dim " + std::to_string(vectors.dim()) + ", got " +
                                std::to_string(rows_) + " of dim " + std::to_string(dim_));
}

void Sketch::rotate(const float* values, float* out) const {
    std::vector<float> scratch(width_);
    active_kernels().rotate(values, dim_, width_, stages_, factors_.data(), scratch.data(), out);
}

double Sketch::rotation_error() const noexcept {
    // Every value of every level is one rounding; the factors are rounded once.
    const auto levels = static_cast<double>(std::bit_width(width_) + 2);
    return static_cast<double>(stages_) * levels * 0x1p-24 * 1.01;
}

void Sketch::reserve(Chunk& chunk, std::size_t used, std::size_t wanted) const {
    if (wanted <= chunk.capacity) return;
    // The first chunk of a small store doubles; the later ones of a large store come whole.
    const std::size_t capacity =
        &chunk == &chunks_.front()
            ? std::min(chunk_rows, std::max({wanted, 2 * chunk.capacity, smallest_capacity}))
            : chunk_rows;
    std::unique_ptr<std::uint8_t[], FreeAligned> codes(allocate_codes(2 * capacity * stride_));
    chunk.scales.resize(capacity);
    chunk.residuals4.resize(capacity);
    chunk.residuals8.resize(capacity);
    if (used > 0) {
        std::memcpy(codes.get(), chunk.codes.get(), used * stride_);
        std::memcpy(codes.get() + capacity * stride_, chunk.codes.get() + chunk.capacity * stride_,
                    used * stride_);
    }
    chunk.codes = std::move(codes);
    chunk.capacity = capacity;
}

// The rotated row becomes the first values of the buffer.
void Sketch::rotate_row(const VectorView& vectors, std::size_t row,
                        std::vector<float>& buffer) const {
    buffer.resize(2 * dim_ + width_);
    float* rotated = buffer.data();
    const float* values = vectors.fetch(row, rotated + dim_);
    active_kernels().rotate(values, dim_, width_, stages_, factors_.data(), rotated + 2 * dim_,
                            rotated);
}

void Sketch::encode(const VectorView& vectors, std::size_t row) {
    thread_local std::vector<float> buffer;
    rotate_row(vectors, row, buffer);
    Chunk& chunk = chunks_[row / chunk_rows];
    const std::size_t place = row % chunk_rows;
    active_kernels().encode(buffer.data(), dim_, stride_, chunk.codes.get() + place * stride_,
                            chunk.codes.get() + (chunk.capacity + place) * stride_,
                            &chunk.scales[place], &chunk.residuals4[place],
                            &chunk.residuals8[place]);
}

bool Sketch::has_codes_of(const VectorView& vectors, std::size_t row) const {
    std::vector<float> buffer;
    rotate_row(vectors, row, buffer);
    std::vector<std::uint8_t> codes(2 * stride_);
    float scale = 0.0F;
    float residual4 = 0.0F;
    float residual8 = 0.0F;
    active_kernels().encode(buffer.data(), dim_, stride_, codes.data(), codes.data() + stride_,
                            &scale, &residual4, &residual8);
    const Run own = run(row);
    return scale == *own.scales && residual4 == *own.residuals4 && residual8 == *own.residuals8 &&
           std::equal(codes.begin(), codes.begin() + static_cast<std::ptrdiff_t>(stride_),
                      own.high) &&
           std::equal(codes.begin() + static_cast<std::ptrdiff_t>(stride_), codes.end(), own.low);
}

void Sketch::extend(const VectorView& vectors) {
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
    const std::size_t known = rows_;
    const std::size_t row_bytes = coding * dim_ * sizeof(float);
    run_ranges(vectors.rows() - known, row_bytes, [&](std::size_t begin, std::size_t end) {
        for (std::size_t row = known + begin; row < known + end; ++row) encode(vectors, row);
    });
    rows_ = vectors.rows();
}

void Sketch::update(const VectorView& vectors, std::size_t row) {
    if (row >= rows_ || vectors.rows() < rows_) {
        throw std::invalid_argument("the sketch has no such row");
    }
    encode(vectors, row);
}

void Sketch::truncate(std::size_t count) noexcept {
    rows_ = std::min(rows_, count);
    const std::size_t needed = (rows_ + chunk_rows - 1) / chunk_rows;
    chunks_.erase(chunks_.begin() + static_cast<std::ptrdiff_t>(needed), chunks_.end());
}

Sketch::Run Sketch::run(std::size_t row) const noexcept {
    const Chunk& chunk = chunks_[row / chunk_rows];
    const std::size_t place = row % chunk_rows;
    const std::size_t end = std::min(chunk_rows, rows_ - row / chunk_rows * chunk_rows);
    return {
        chunk.codes.get() + place * stride_, chunk.codes.get() + (chunk.capacity + place) * stride_,
        chunk.scales.data() + place,         chunk.residuals4.data() + place,
        chunk.residuals8.data() + place,     end - place};
}

}  // namespace flashbulb
