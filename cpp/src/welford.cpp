#include "flashbulb/welford.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>

#include "dispatch.hpp"

namespace flashbulb {

namespace {
// A block of rows is read twice; it should still be in the second cache level then.
constexpr std::size_t block_values = 32768;
}  // namespace

void Moments::update(double value) noexcept {
    ++count;
    const double delta = value - mean;
    mean += delta / static_cast<double>(count);
    m2 += delta * (value - mean);
}

void Moments::merge(const Moments& other) noexcept {
    if (other.count == 0) return;
    const double n = static_cast<double>(count);
    const double other_n = static_cast<double>(other.count);
    const double delta = other.mean - mean;
    const double share = other_n / (n + other_n);
    mean += delta * share;
    m2 += other.m2 + delta * delta * (n * share);
    count += other.count;
}

double Moments::variance() const noexcept {
    return count < 2 ? 0.0 : m2 / static_cast<double>(count - 1);
}

Centroid::Centroid(std::size_t dim) : mean_(dim), m2_(dim) {
    if (dim == 0) throw std::invalid_argument("a centroid needs dim >= 1, got 0");
}

Centroid::Centroid(std::int64_t count, std::vector<double> mean, std::vector<double> m2)
    : count_(count), mean_(std::move(mean)), m2_(std::move(m2)) {
    if (count < 0 || mean_.empty() || mean_.size() != m2_.size()) {
        throw std::invalid_argument(
            "expected count >= 0 and mean and m2 of the same length >= 1, got count " +
            std::to_string(count) + " and lengths " + std::to_string(mean_.size()) + " and " +
            std::to_string(m2_.size()));
    }
    const auto is_finite = [](double value) { return std::isfinite(value); };
    if (!std::all_of(mean_.begin(), mean_.end(), is_finite) ||
        !std::all_of(m2_.begin(), m2_.end(),
                     [](double value) { return std::isfinite(value) && value >= 0.0; })) {
        throw std::invalid_argument("mean must be finite, m2 finite and at least 0");
    }
}

void Centroid::update(const float* vector) {
    const auto& kernels = active_kernels();
    ++count_;
    kernels.welford_update(vector, dim(), static_cast<double>(count_), mean_.data(), m2_.data());
}

void Centroid::update_batch(const float* rows, std::size_t rows_count) {
    const auto& kernels = active_kernels();
    const std::size_t block = std::max<std::size_t>(1, block_values / dim());
    std::vector<double> mean(dim());
    std::vector<double> m2(dim());
    for (std::size_t done = 0; done < rows_count; done += block) {
        const std::size_t count = std::min(block, rows_count - done);
        kernels.welford_block(rows + done * dim(), count, dim(), mean.data(), m2.data());
        kernels.welford_merge(dim(), static_cast<double>(count_), mean_.data(), m2_.data(),
                              static_cast<double>(count), mean.data(), m2.data());
        count_ += static_cast<std::int64_t>(count);
    }
}

void Centroid::merge(const Centroid& other) {
    if (other.dim() != dim()) {
        throw std::invalid_argument("expected a centroid of dim " + std::to_string(dim()) +
                                    ", got " + std::to_string(other.dim()));
    }
    if (other.count_ == 0) return;
    active_kernels().welford_merge(dim(), static_cast<double>(count_), mean_.data(), m2_.data(),
                                   static_cast<double>(other.count_), other.mean_.data(),
                                   other.m2_.data());
    count_ += other.count_;
}

double Centroid::distance(const float* vector) const {
    if (count_ == 0) return 0.0;
    return std::sqrt(active_kernels().squared_distance(vector, mean_.data(), dim()));
}

}  // namespace flashbulb
