#pragma once

#include "flashbulb/search.hpp"
#include "score.hpp"

namespace flashbulb {

/// @throws std::invalid_argument as `search` says
void validate(const VectorView& vectors, const TraceTable& traces, const SearchRequest& request);

/// A result with room for `k` hits of each of `queries`.
[[nodiscard]] SearchResult empty_result(std::size_t queries, std::size_t k);

/// Writes the hits of one query, the first `result.k` of them.
void put(SearchResult& result, std::size_t query, const std::vector<Scored>& hits);

}  // namespace flashbulb
