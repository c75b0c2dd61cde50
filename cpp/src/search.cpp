#include "flashbulb/search.hpp"

#include <algorithm>
#include <memory>

#include "flashbulb/thread_pool.hpp"
#include "request.hpp"
#include "selection.hpp"

namespace flashbulb {

namespace {

// Rows that are scored in the end, each read where it lies; about.
constexpr std::size_t finalists_a_query = 64;

}  // namespace

SearchResult search(const VectorView& vectors, const TraceTable& traces,
                    const SearchRequest& request) {
    validate(vectors, traces, request);
    const std::size_t m = request.query_count;
    if (std::min(request.k, traces.live()) == 0) return {};

    const SelectionPlan plan(vectors, traces, request);
    const std::unique_ptr<Selection> selection = Selection::of_all_rows(plan);

    SearchResult result = empty_result(m, std::min(plan.k, selection->allowed()));
    const std::size_t parts = std::min(m, parts_for(m * finalists_a_query * vectors.dim() * 4));
    run_parts(parts, [&](std::size_t part) {
        for (std::size_t query = m * part / parts; query < m * (part + 1) / parts; ++query) {
            put(result, query,
                best_rows(vectors, traces, request, query, selection->selector(query).finalists(),
                          result.k));
        }
    });
    return result;
}

}  // namespace flashbulb
