#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "flashbulb/sketch.hpp"
#include "kernels/table.hpp"

namespace flashbulb {

/// |computed cosine - exact cosine| <= slope * residual of the row + offset.
struct CosineError {
    double slope;
    double offset;
};

/// Queries, rotated and coded for the rows of a sketch.
///
/// The bound: with a rotated query q ~ q' and row x ~ x', q.x - q'.x' = q.(x - x') + (q - q').x',
/// by Cauchy and Schwarz at most |q| |x - x'| + |q - q'| |x'|, and |x'| <= |x| + |x - x'|; besides,
/// what the rotation and the sums round away.
class CodedQueries {
public:
    /// Queries that share a group of a batch.
    static constexpr std::size_t lanes = 16;

    /// @param queries (count, dim) values, none with a norm above query_norm
    /// @param row_norm no row of the sketch has a larger norm
    /// @param for_batches whether `packed` is needed
    CodedQueries(const Sketch& sketch, const float* queries, std::size_t count, double query_norm,
                 double row_norm, bool for_batches);

    [[nodiscard]] const kernels::CodedQuery& operator[](std::size_t query) const noexcept {
        return queries_[query];
    }
    /// From high digits alone, and either residual.
    [[nodiscard]] CosineError coarse_error(std::size_t query) const noexcept {
        return coarse_[query];
    }
    /// From both digits.
    [[nodiscard]] CosineError fine_error(std::size_t query) const noexcept { return fine_[query]; }

    /// Groups of 16 queries, an even number; the last ones are filled with zeros.
    [[nodiscard]] std::size_t groups() const noexcept { return groups_; }
    /// High digits of a group and those after it, (groups, 2 * stride / 4, 16, 4).
    [[nodiscard]] const std::int8_t* packed(std::size_t group) const noexcept {
        return packed_.get() + group * lanes * width_;
    }

private:
    struct FreeAligned {
        void operator()(std::int8_t* p) const noexcept;
    };
    using Digits = std::unique_ptr<std::int8_t[], FreeAligned>;
    static Digits allocate(std::size_t bytes);

    std::size_t width_;
    std::size_t groups_ = 0;
    Digits digits_;
    Digits packed_;
    std::vector<kernels::CodedQuery> queries_;
    std::vector<CosineError> coarse_;
    std::vector<CosineError> fine_;
};

}  // namespace flashbulb
