#include "scanner.hpp"

#include <algorithm>
#include <cmath>
#include <new>

#include "dispatch.hpp"

namespace flashbulb {

namespace {

// Below this share of wanted rows, only those are read.
constexpr std::size_t sparse_divisor = 4;

// Rows and queries have unit norm within 1e-5.
constexpr double largest_norm = 1.0 + 1e-5;

// Calls scan(first, count) for what is worth reading of a block: all of it, or its wanted rows.
template <class Scan>
void for_wanted(const Block& block, Scan&& scan) {
    if (block.wanted * sparse_divisor >= block.count) {
        scan(std::size_t{0}, block.count);
        return;
    }
    for (std::size_t i = 0; i < block.count; ++i) {
        if (block.mask[i] != 0) scan(i, std::size_t{1});
    }
}

class RowScanner final : public Scanner {
public:
    RowScanner(const float* queries, std::size_t dim)
        : queries_(queries), dim_(dim), error_(float32_error(dim)) {}

    void scan(std::size_t query, const Block& block, float* cosines,
              double* errors) const override {
        const auto& kernels = active_kernels();
        const float* q = queries_ + query * dim_;
        for_wanted(block, [&](std::size_t first, std::size_t count) {
            kernels.select_inner_products(q, block.vectors + first * dim_, count, dim_,
                                          cosines + first);
        });
        std::fill_n(errors, block.count, error_);
    }

private:
    const float* queries_;
    std::size_t dim_;
    double error_;
};

// The bound: q.x - q'.x' = q.(x - x') + (q - q').x' for decoded q', x'; by Cauchy and Schwarz at
// most |q| |x - x'| + |q - q'| |x'|, and |x'| <= |x| + |x - x'|.
class SketchScanner final : public Scanner {
public:
    SketchScanner(const Int8Sketch& sketch, const float* queries, std::size_t query_count)
        : sketch_(sketch) {
        const std::size_t dim = sketch.dim();
        const std::size_t stride = sketch.stride();
        const auto& kernels = active_kernels();
        codes_.reset(new (std::align_val_t{64}) std::int8_t[2 * stride * query_count]());
        std::vector<float> remainder(dim);
        for (std::size_t query = 0; query < query_count; ++query) {
            const float* q = queries + query * dim;
            std::int8_t* high = codes_.get() + 2 * stride * query;
            std::int8_t* low = high + stride;
            float step = 0.0F;
            float unused = 0.0F;
            kernels.encode_int8(q, dim, stride, high, &step, &unused);
            // The second int8 digit: 254 of its steps make one of the first.
            const float low_step = step / 254.0F;
            std::int32_t high_sum = 0;
            std::int32_t low_sum = 0;
            double missed = 0.0;
            for (std::size_t i = 0; i < dim; ++i) {
                const double rest =
                    static_cast<double>(q[i]) - static_cast<double>(low_step) * 254.0 * high[i];
                const double digit =
                    std::clamp(std::nearbyint(rest / static_cast<double>(low_step)), -127.0, 127.0);
                low[i] = static_cast<std::int8_t>(digit);
                const double left = rest - static_cast<double>(low_step) * digit;
                missed += left * left;
                high_sum += high[i];
                low_sum += low[i];
            }
            queries_.push_back({high, low, 128 * high_sum, 128 * low_sum, low_step});
            residuals_.push_back(std::sqrt(missed) * (1.0 + 1e-9));
        }
    }

    void scan(std::size_t query, const Block& block, float* cosines,
              double* errors) const override {
        const auto& kernels = active_kernels();
        const Int8Sketch::Run run = sketch_.run(block.begin);
        for_wanted(block, [&](std::size_t first, std::size_t count) {
            kernels.scan_int8(run.codes + first * sketch_.stride(), count, sketch_.stride(),
                              queries_[query], run.scales + first, cosines + first);
        });
        const double residual = residuals_[query];
        const double slope = largest_norm + residual;
        const double offset = residual * largest_norm + arithmetic_error;
        for (std::size_t i = 0; i < block.count; ++i) {
            errors[i] = slope * static_cast<double>(run.residuals[i]) + offset;
        }
    }

private:
    // Rounding of the sums of codes to float32 and of the products with the scales: a few units
    // in the last place of values up to about 1.
    static constexpr double arithmetic_error = 1e-6;

    struct FreeAligned {
        void operator()(std::int8_t* p) const noexcept {
            ::operator delete[](p, std::align_val_t{64});
        }
    };

    const Int8Sketch& sketch_;
    std::unique_ptr<std::int8_t[], FreeAligned> codes_;
    std::vector<kernels::Int8Query> queries_;
    std::vector<double> residuals_;
};

}  // namespace

double float32_error(std::size_t dim) noexcept {
    return (static_cast<double>(dim) + 8.0) * 0x1p-24 * largest_norm * largest_norm;
}

std::unique_ptr<Scanner> scan_rows(const float* queries, std::size_t dim) {
    return std::make_unique<RowScanner>(queries, dim);
}

std::unique_ptr<Scanner> scan_sketch(const Int8Sketch& sketch, const float* queries,
                                     std::size_t query_count) {
    return std::make_unique<SketchScanner>(sketch, queries, query_count);
}

}  // namespace flashbulb
