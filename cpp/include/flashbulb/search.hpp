#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "flashbulb/sketch.hpp"
#include "flashbulb/tags.hpp"
#include "flashbulb/traces.hpp"
#include "flashbulb/views.hpp"

namespace flashbulb {

/// Which rows may enter a result. Dead rows never do.
struct Filter {
    std::vector<TagId> tags;   ///< a row must have all of these
    bool unknown_tag = false;  ///< a wanted tag that no row has: nothing passes
    double since = -std::numeric_limits<double>::infinity();  ///< since <= created
    double until = std::numeric_limits<double>::infinity();   ///< created < until
    /// Rows (ascending) whose time counts as inside although `created` is not.
    std::vector<std::size_t> time_exempt;
    std::optional<TaskStatus> status;  ///< only rows of this status
    /// Rows (ascending) to which the search is restricted.
    std::optional<std::vector<std::size_t>> allowed;
};

/// Values to add to the similarity of some rows, rows ascending and not repeated.
struct SparseAddends {
    std::vector<std::size_t> rows;  ///< ascending, without repeats
    std::vector<double> values;     ///< one a row, within 1e12 of 0
};

/// What a search with a sketch reads first; the result is the same.
enum class SearchPath : std::uint8_t {
    automatic,  ///< int4 for many rows, int8 for few
    int8,       ///< both planes of codes
    int4,       ///< the high plane, and the low one of rows that may be wanted
};

/// What `automatic` means for this many rows at the active SIMD level. Others mean themselves.
[[nodiscard]] SearchPath resolve(SearchPath path, std::size_t rows);

/// What to search for, at what moment, and what counts how much.
struct SearchRequest {
    const float* queries = nullptr;              ///< query_count unit vectors of the view's dim
    std::size_t query_count = 0;                 ///< queries, row-major in `queries`
    std::size_t k = 0;                           ///< hits wanted for each query
    double now = 0.0;                            ///< epoch seconds
    double similarity_weight = 1.0;              ///< similarity = weight * cosine + addend
    double vividness_weight = 0.3;               ///< of effective vividness times salience
    double recency_weight = 0.1;                 ///< of exp(-age / recency_days)
    std::optional<double> vividness_ramp_start;  ///< in place of the policy's
    std::optional<double> vividness_ramp_end;    ///< in place of the policy's
    Filter filter;                               ///< the same for all queries
    std::vector<SparseAddends> addends;          ///< none, or one a query
    const Sketch* sketch = nullptr;  ///< scanned instead of the rows, if given; same result
    SearchPath path = SearchPath::automatic;  ///< which planes of the sketch are read first
};

/// Row-major (query_count, k) arrays; k is min(request.k, rows that pass the filter).
struct SearchResult {
    std::size_t k = 0;                    ///< hits of each query
    std::vector<std::int64_t> ids;        ///< of the traces
    std::vector<double> scores;           ///< (similarity + vividness bonus) + recency bonus
    std::vector<double> similarities;     ///< weight * cosine + addend
    std::vector<double> cosines;          ///< float64 inner products
    std::vector<double> vividness_bonus;  ///< weight and ramp included
    std::vector<double> recency_bonus;    ///< weight and ramp included
};

/// The exact top k of the fused score
///
///     score = (similarity + vividness_bonus) + recency_bonus
///
/// ordered by score descending, then id ascending. One pass over the vectors or their sketch
/// selects finalists by bounds; they are scored by the one float64 definition, so that ids and
/// scores do not depend on SIMD level, path, segmentation, batch or number of threads.
///
/// @pre the rows of `vectors` have unit norm within the tolerance of their encoding
///      (norm_tolerance; 1e-5 in float32), the queries within 1e-5.
/// @throws std::invalid_argument if `vectors` and `traces` differ in their number of rows, a value
///         of the request is not finite, or a row of an addend or a list is out of range.
[[nodiscard]] SearchResult search(const VectorView& vectors, const TraceTable& traces,
                                  const SearchRequest& request);

/// A row and its largest cosine to any of a set of other rows.
struct RelatedRow {
    std::size_t row;  ///< its number
    double cosine;    ///< the largest
};

/// Live rows outside `accessed` whose cosine to an accessed row is above `threshold`, each with
/// the largest such cosine; rows ascending. Exact: a pass over the sketch, if given, or over the
/// vectors in float32 preselects.
[[nodiscard]] std::vector<RelatedRow> related_rows(const VectorView& vectors,
                                                   const TraceTable& traces,
                                                   std::span<const std::size_t> accessed,
                                                   double threshold,
                                                   const Sketch* sketch = nullptr);

}  // namespace flashbulb
