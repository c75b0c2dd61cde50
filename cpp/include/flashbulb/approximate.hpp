#pragma once

#include <cstddef>
#include <span>

#include "flashbulb/partition.hpp"
#include "flashbulb/search.hpp"

namespace flashbulb {

/// Where an approximate search looks: lists of a partition, or rows that a graph has found.
struct Approximation {
    /// Lists near the query are looked at, and all rows that are in no list yet.
    const Partition* partition = nullptr;
    std::size_t least_lists = 1;  ///< at least so many lists
    std::size_t wanted_rows = 0;  ///< and as many lists as hold so many rows

    /// Without a partition: rows (ascending) that may be near the one query of the request.
    std::span<const std::size_t> candidates{};
    /// If fewer of these pass the filter, all rows are looked at.
    std::size_t least_candidates = 1;
};

/// As `search`, but only these rows are looked at: those of the lists nearest to the query or the
/// candidates; every memory that is pinned or has the salience of a flashbulb; the rows with the
/// largest bonus, at least a hundredth of all (but not more than a twentieth, if many are equal);
/// every row with an addend. They are scored and ranked as `search` does it. If a filter (or
/// removal) leaves few rows, more lists are looked at, and all rows where that costs no more or
/// where it leaves fewer near the query than elsewhere: a result never has fewer than min(k, rows
/// that pass the filter) rows.
///
/// All rows are looked at as well if the lists to look at hold more than a quarter of them, which
/// would take longer; if the bonus may count as much as the similarity; or if `now` is before the
/// time of an earlier search.
/// @throws std::invalid_argument as `search`; if a candidate is no row or there are several queries
///         for one set of candidates; if the partition has another dim or more rows than the store.
[[nodiscard]] SearchResult search_nearby(const VectorView& vectors, const TraceTable& traces,
                                         const SearchRequest& request,
                                         const Approximation& approximation);

/// The rows that every approximate search at `now` looks at for their bonus, ascending; none if
/// there are no bounds of the bonus for that time. @pre the weights are finite and at least 0
[[nodiscard]] std::vector<std::size_t> vivid_rows(const TraceTable& traces, double now,
                                                  double vividness_weight, double recency_weight);

}  // namespace flashbulb
