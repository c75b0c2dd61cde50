#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace flashbulb {

/// Count, mean and sum of squared deviations of a stream, updated in one pass (Welford) and
/// mergeable (Chan).
struct Moments {
    std::int64_t count = 0;  ///< values seen
    double mean = 0.0;       ///< their mean; 0 if there are none
    double m2 = 0.0;         ///< sum of their squared deviations from the mean

    /// Takes one more value in.
    void update(double value) noexcept;
    /// As if the values of `other` had come, too.
    void merge(const Moments& other) noexcept;
    /// Sample variance, m2 / (count - 1); 0 for fewer than two values.
    [[nodiscard]] double variance() const noexcept;
};

/// The moments of every dimension of a stream of vectors: its running centroid.
class Centroid {
public:
    /// @throws std::invalid_argument if dim is 0
    explicit Centroid(std::size_t dim);
    /// From saved moments. @throws std::invalid_argument if they do not fit together.
    Centroid(std::int64_t count, std::vector<double> mean, std::vector<double> m2);

    /// Values of a vector.
    [[nodiscard]] std::size_t dim() const noexcept { return mean_.size(); }
    /// Vectors seen.
    [[nodiscard]] std::int64_t count() const noexcept { return count_; }
    /// Mean of each dimension: the centroid.
    [[nodiscard]] const std::vector<double>& mean() const noexcept { return mean_; }
    /// Sum of squared deviations of each dimension.
    [[nodiscard]] const std::vector<double>& m2() const noexcept { return m2_; }

    /// Takes vectors in, one after the other: the same bits as one call for each.
    /// @param rows count rows of dim() finite values
    /// @param distances if given, the L2 distance of each row to the centroid *before* it, as
    ///        `distance` gives it, in the same pass
    void update(const float* rows, std::size_t count = 1, double* distances = nullptr);
    /// As if the vectors of `other` had come, too.
    /// @throws std::invalid_argument if the dims differ
    void merge(const Centroid& other);
    /// L2 distance of a vector to the centroid; 0 if nothing has been seen.
    [[nodiscard]] double distance(const float* vector) const;

private:
    std::int64_t count_ = 0;
    std::vector<double> mean_;
    std::vector<double> m2_;
};

}  // namespace flashbulb
