#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>

#include "batch_products.hpp"
#include "coded_queries.hpp"
#include "dispatch.hpp"
#include "flashbulb/search.hpp"
#include "flashbulb/thread_pool.hpp"

namespace flashbulb {

namespace {

// So many queries are compared with a block in the time that it takes to read it.
constexpr std::size_t queries_a_read = 8;

constexpr std::size_t block_rows = BatchProducts::most_rows;

// Calls candidate(row) for rows in [begin, end), ascending, among which are all whose cosine to one
// of the queries is above the threshold.
template <class Candidate>
void scan_vectors(const VectorView& vectors, const std::vector<float>& queries, double threshold,
                  std::size_t begin, std::size_t end, Candidate&& candidate) {
    const auto& kernels = active_kernels();
    const std::size_t dim = vectors.dim();
    const double norm = vectors.norm_bound();
    const double preselect =
        threshold - (static_cast<double>(dim) + 8.0) * 0x1p-24 * norm * norm - 1e-9;
    std::vector<float> fetched(vectors.direct() ? 0 : block_rows * dim);
    std::array<float, block_rows> cosines{};
    while (begin < end) {
        const std::size_t count = std::min({block_rows, end - begin, vectors.run(begin)});
        const float* rows = vectors.fetch(begin, count, fetched.data());
        std::array<float, block_rows> largest;
        largest.fill(-std::numeric_limits<float>::infinity());
        for (std::size_t query = 0; query * dim < queries.size(); ++query) {
            kernels.select_inner_products(queries.data() + query * dim, rows, count, dim,
                                          cosines.data());
            for (std::size_t i = 0; i < count; ++i) largest[i] = std::max(largest[i], cosines[i]);
        }
        for (std::size_t i = 0; i < count; ++i) {
            if (static_cast<double>(largest[i]) >= preselect) candidate(begin + i);
        }
        begin += count;
    }
}

template <class Candidate>
void scan_sketch(const Sketch& sketch, double norm, const std::vector<float>& queries,
                 double threshold, std::size_t begin, std::size_t end, Candidate&& candidate) {
    const auto& kernels = active_kernels();
    constexpr std::size_t lanes = CodedQueries::lanes;
    const std::size_t query_count = queries.size() / sketch.dim();
    const CodedQueries coded(sketch, queries.data(), query_count, norm, norm, true);
    BatchProducts batch(coded, sketch.stride(), false);
    std::vector<std::uint16_t> hits(block_rows * lanes);
    double slope = 0.0;
    for (std::size_t query = 0; query < query_count; ++query) {
        slope = std::max(slope, coded.coarse_error(query).slope);
    }
    std::vector<kernels::BatchLanes> groups((query_count + lanes - 1) / lanes);
    for (std::size_t query = 0; query < groups.size() * lanes; ++query) {
        kernels::BatchLanes& group = groups[query / lanes];
        if (query >= query_count) {
            BatchProducts::clear_lane(group, query % lanes);
            continue;
        }
        // Minus a slack for the float32 arithmetic of the comparison.
        const double cut = threshold - coded.coarse_error(query).offset - 1e-6;
        batch.set_lane(group, query, 1.0, static_cast<float>(cut));
    }
    std::array<float, block_rows> base{};
    while (begin < end) {
        const Sketch::Run run = sketch.run(begin);
        const std::size_t count = std::min({block_rows, run.count, end - begin});
        batch.unpack(run, 0, count, 0);
        batch.start(count);
        for (std::size_t i = 0; i < count; ++i) {
            base[i] = static_cast<float>(slope) * run.residuals4[i];
        }
        std::array<bool, block_rows> close{};
        for (std::size_t g = 0; g < groups.size(); ++g) {
            const std::size_t found = kernels.select_batch(batch.of_group(g), count, run.scales,
                                                           base.data(), groups[g], hits.data());
            for (std::size_t hit = 0; hit < found; ++hit) {
                const std::size_t i = hits[hit] / lanes;
                const std::size_t query = g * lanes + hits[hit] % lanes;
                if (close[i]) continue;
                const Sketch::Run row = sketch.run(begin + i);
                float cosine = 0.0F;
                kernels.scan_int8(row.high, row.low, 1, sketch.stride(), coded[query], row.scales,
                                  &cosine);
                const CosineError error = coded.fine_error(query);
                close[i] = static_cast<double>(cosine) +
                               error.slope * static_cast<double>(row.residuals8[0]) +
                               error.offset >=
                           threshold;
            }
        }
        for (std::size_t i = 0; i < count; ++i) {
            if (close[i]) candidate(begin + i);
        }
        begin += count;
    }
}

}  // namespace

std::vector<RelatedRow> related_rows(const VectorView& vectors, const TraceTable& traces,
                                     std::span<const std::size_t> accessed, double threshold,
                                     const Sketch* sketch) {
    if (vectors.rows() != traces.rows()) {
        throw std::invalid_argument("expected as many vectors as traces, got " +
                                    std::to_string(vectors.rows()) + " and " +
                                    std::to_string(traces.rows()));
    }
    if (sketch != nullptr) sketch->require_rows_of(vectors);
    const auto& kernels = active_kernels();
    const std::size_t dim = vectors.dim();
    std::vector<std::size_t> own(accessed.begin(), accessed.end());
    std::sort(own.begin(), own.end());
    own.erase(std::unique(own.begin(), own.end()), own.end());
    std::vector<float> queries(own.size() * dim);
    std::vector<float> fetched(vectors.direct() ? 0 : dim);
    for (std::size_t i = 0; i < own.size(); ++i) {
        std::copy_n(vectors.fetch(own[i], fetched.data()), dim, queries.data() + i * dim);
    }
    std::vector<RelatedRow> result;
    if (own.empty()) return result;
    std::mutex putting_together;
    const std::size_t row_bytes = sketch != nullptr ? sketch->stride() : dim * sizeof(float);
    const std::size_t reads = 1 + own.size() / queries_a_read;
    run_ranges(vectors.rows(), row_bytes * reads, [&](std::size_t begin, std::size_t end) {
        std::vector<RelatedRow> found;
        std::vector<float> scratch(fetched.size());
        const auto look = [&](std::size_t row) {
            if (!traces.is_live(row) || std::binary_search(own.begin(), own.end(), row)) return;
            const float* values = vectors.fetch(row, scratch.data());
            double cosine = -std::numeric_limits<double>::infinity();
            for (std::size_t i = 0; i < own.size(); ++i) {
                cosine =
                    std::max(cosine, kernels.inner_product(values, queries.data() + i * dim, dim));
            }
            if (cosine > threshold) found.push_back({row, cosine});
        };
        if (sketch != nullptr) {
            scan_sketch(*sketch, vectors.norm_bound(), queries, threshold, begin, end, look);
        } else {
            scan_vectors(vectors, queries, threshold, begin, end, look);
        }
        const std::lock_guard guard(putting_together);
        result.insert(result.end(), found.begin(), found.end());
    });
    std::sort(result.begin(), result.end(),
              [](const RelatedRow& a, const RelatedRow& b) { return a.row < b.row; });
    return result;
}

}  // namespace flashbulb
