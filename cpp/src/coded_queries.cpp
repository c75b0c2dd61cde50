#include "coded_queries.hpp"

#include <algorithm>
#include <cmath>
#include <new>

#include "dispatch.hpp"

namespace flashbulb {

namespace {

// Rounding of the sums of codes to float32 and of the products with the scales: a few units in the
// last place of values up to about 1.
constexpr double arithmetic_error = 1e-6;

}  // namespace

void CodedQueries::FreeAligned::operator()(std::int8_t* p) const noexcept {
    ::operator delete[](p, std::align_val_t{64});
}

CodedQueries::Digits CodedQueries::allocate(std::size_t bytes) {
    return Digits(new (std::align_val_t{64}) std::int8_t[bytes]());
}

CodedQueries::CodedQueries(const Sketch& sketch, const float* queries, std::size_t count,
                           double query_norm, double row_norm, bool for_batches)
    : width_(2 * sketch.stride()), digits_(allocate(2 * width_ * count)) {
    const std::size_t dim = sketch.dim();
    const double rotation = sketch.rotation_error();
    query_norm *= 1.0 + rotation;
    row_norm *= 1.0 + rotation;
    const double rounding = 2.0 * rotation * query_norm * row_norm +
                            arithmetic_error * std::max(1.0, query_norm * row_norm);
    const auto error_of = [&](double missed) {
        const double residual = std::sqrt(missed) * (1.0 + 1e-9);
        return CosineError{query_norm + residual, residual * row_norm + rounding};
    };
    std::vector<float> rotated(dim);
    for (std::size_t query = 0; query < count; ++query) {
        sketch.rotate(queries + query * dim, rotated.data());
        std::int8_t* high = digits_.get() + 2 * width_ * query;
        std::int8_t* low = high + width_;
        kernels::QueryCodes codes{};
        active_kernels().code_query(rotated.data(), dim, high, low, &codes);
        queries_.push_back({high, low, 241 * codes.high_sum, 128 * codes.high_sum,
                            128 * codes.low_sum, 127.0F * codes.low_step, codes.low_step});
        coarse_.push_back(error_of(codes.missed4));
        fine_.push_back(error_of(codes.missed8));
    }
    if (!for_batches) return;
    groups_ = (count + 2 * lanes - 1) / (2 * lanes) * 2;
    packed_ = allocate(groups_ * lanes * width_);
    for (std::size_t query = 0; query < count; ++query) {
        const std::int8_t* high = queries_[query].high;
        std::int8_t* group = packed_.get() + query / lanes * lanes * width_;
        for (std::size_t i = 0; i < width_; i += 4) {
            std::copy_n(high + i, 4, group + lanes * i + query % lanes * 4);
        }
    }
}

}  // namespace flashbulb
