#include "coded_queries.hpp"

#include <algorithm>
#include <cmath>
#include <new>

namespace flashbulb {

namespace {

// Rounding of the sums of codes to float32 and of the products with the scales: a few units in the
// last place of values up to about 1.
constexpr double arithmetic_error = 1e-6;

std::int8_t digit(double value, double step) {
    return static_cast<std::int8_t>(std::clamp(std::nearbyint(value / step), -127.0, 127.0));
}

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
        float largest = 1e-30F;
        for (const float value : rotated) largest = std::max(largest, std::abs(value));
        // The second digit: 254 of its steps make one of the first.
        const float low_step = largest / (127.0F * 254.0F);
        const auto high_step = 254.0 * static_cast<double>(low_step);
        std::int32_t high_sum = 0;
        std::int32_t low_sum = 0;
        double missed4 = 0.0;
        double missed8 = 0.0;
        for (std::size_t i = 0; i < dim; ++i) {
            high[i] = digit(static_cast<double>(rotated[i]), high_step);
            const double rest = static_cast<double>(rotated[i]) - high_step * high[i];
            low[i] = digit(rest, static_cast<double>(low_step));
            const double left = rest - static_cast<double>(low_step) * low[i];
            missed4 += rest * rest;
            missed8 += left * left;
            high_sum += high[i];
            low_sum += low[i];
        }
        queries_.push_back({high, low, 241 * high_sum, 128 * high_sum, 128 * low_sum,
                            127.0F * low_step, low_step});
        coarse_.push_back(error_of(missed4));
        fine_.push_back(error_of(missed8));
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
