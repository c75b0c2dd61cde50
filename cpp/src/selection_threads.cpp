// One selection by several threads: each has its own and looks at one range of rows after the
// other, and what they kept is put together. A row that can be among the best of all is among the
// best of its thread, so that nothing is lost; the one definition of a score decides afterwards.

#include <algorithm>
#include <atomic>

#include "flashbulb/thread_pool.hpp"
#include "selection.hpp"

namespace flashbulb {

namespace {

// Single rows are read where they lie: about so many times slower than runs of them.
constexpr std::size_t gathering = 3;

// A batch multiplies a block in the cache by so many queries in the time that it takes to read it.
constexpr std::size_t queries_a_read = 8;

std::size_t work_in_bytes(const SelectionPlan& plan) {
    const SearchRequest& request = plan.request;
    std::size_t row_bytes = plan.vectors.format().row_bytes();
    if (request.sketch != nullptr) {
        const bool high_only = plan.batch ? !plan.full_batch : plan.coarse;
        row_bytes = request.sketch->stride() * (high_only ? 1 : 2);
    }
    const std::size_t rows =
        request.filter.allowed ? gathering * request.filter.allowed->size() : plan.vectors.rows();
    const std::size_t reads =
        plan.batch ? 1 + request.query_count / queries_a_read : request.query_count;
    return rows * row_bytes * reads;
}

}  // namespace

std::vector<std::size_t> SelectionPlan::cuts() const {
    const std::size_t rows = vectors.rows();
    const std::size_t parts = parts_for(work_in_bytes(*this));
    std::vector<std::size_t> cuts{0};
    for (std::size_t part = 1; part < parts; ++part) {
        // Whole blocks, or as many of the rows that are named.
        const std::size_t cut =
            request.filter.allowed
                ? (*request.filter.allowed)[request.filter.allowed->size() * part / parts]
                : rows * part / parts / block_rows * block_rows;
        if (cut > cuts.back()) cuts.push_back(cut);
    }
    cuts.push_back(rows);
    return cuts;
}

std::unique_ptr<Selection> Selection::of_all_rows(const SelectionPlan& plan) {
    const std::vector<std::size_t> cuts = plan.cuts();
    const std::size_t ranges = cuts.size() - 1;
    std::vector<std::unique_ptr<Selection>> each(std::min(ranges, threads()));
    std::atomic<std::size_t> next{0};
    // A part is a thread, not a range: a thread that comes late finds nothing left to do.
    run_parts(each.size(), [&](std::size_t thread) {
        for (std::size_t range = next++; range < ranges; range = next++) {
            if (each[thread] == nullptr) each[thread] = std::make_unique<Selection>(plan);
            each[thread]->scan(cuts[range], cuts[range + 1]);
        }
    });
    std::erase(each, nullptr);
    for (std::size_t other = 1; other < each.size(); ++other) each[0]->merge(*each[other]);
    return std::move(each[0]);
}

}  // namespace flashbulb
