#include "selector.hpp"

#include <algorithm>
#include <functional>
#include <limits>

namespace flashbulb {

namespace {
constexpr std::size_t smallest_limit = 1024;
}

FinalistSelector::FinalistSelector(std::size_t k)
    : k_(k),
      cut_(k == 0 ? std::numeric_limits<double>::infinity() : -std::numeric_limits<double>::max()),
      limit_(std::max(2 * k, smallest_limit)) {}

void FinalistSelector::insert(std::size_t row, double lower, double upper) {
    candidates_.push_back({row, upper});
    raise(lower);
    if (candidates_.size() > limit_) prune();
}

void FinalistSelector::raise(double lower) {
    if (best_.size() < k_) {
        best_.push_back(lower);
        std::push_heap(best_.begin(), best_.end(), std::greater<>{});
    } else if (lower > best_.front()) {
        std::pop_heap(best_.begin(), best_.end(), std::greater<>{});
        best_.back() = lower;
        std::push_heap(best_.begin(), best_.end(), std::greater<>{});
    }
    if (best_.size() == k_) cut_ = best_.front();
}

void FinalistSelector::merge(const FinalistSelector& other) {
    for (const double lower : other.best_) raise(lower);
    candidates_.insert(candidates_.end(), other.candidates_.begin(), other.candidates_.end());
    prune();
}

void FinalistSelector::prune() {
    std::erase_if(candidates_, [this](const Candidate& each) { return each.upper < cut_; });
    // Many equal rows may all remain; then the limit grows, so that pruning stays rare.
    limit_ = std::max(limit_, 2 * candidates_.size());
}

std::vector<std::size_t> FinalistSelector::finalists() {
    prune();
    std::vector<std::size_t> rows;
    rows.reserve(candidates_.size());
    for (const Candidate& candidate : candidates_) rows.push_back(candidate.row);
    std::sort(rows.begin(), rows.end());
    return rows;
}

}  // namespace flashbulb
