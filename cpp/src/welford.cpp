#include "flashbulb/welford.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>

#include "dispatch.hpp"

namespace flashbulb {

namespace {
// Rows of one call of the kernel, whose squared distances stay in the first cache level.
constexpr std::size_t block_rows = 256;
}  // namespace

void Moments::update(double value) noexcept {
    ++count;
    const double delta = value - mean;
    // As the kernel does it for a centroid: by the rounded 1/n.
    mean += delta * (1.0 / static_cast<double>(count));
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

void Centroid::update(const float* rows, std::size_t count, double* distances) {
    const auto& kernels = active_kernels();
    std::array<double, block_rows> squared{};
    for (std::size_t done = 0; done < count; done += block_rows) {
        const std::size_t now = std::min(block_rows, count - done);
        kernels.welford_update(rows + done * dim(), now, dim(), static_cast<double>(count_),
                               mean_.data(), m2_.data(), squared.data());
        if (distances != nullptr) {
            for (std::size_t i = 0; i < now; ++i) distances[done + i] = std::sqrt(squared[i]);
            if (count_ == 0) distances[0] = 0.0;  // nothing had been seen
        }
        count_ += static_cast<std::int64_t>(now);
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
