#pragma once

#include <cstddef>
#include <vector>

namespace flashbulb {

/// Keeps every row that can still be among the k best, given approximate scores that are off by
/// at most `slack` each. A row is dropped only when even its upper bound lies strictly below the
/// k-th best lower bound.
class FinalistSelector {
public:
    FinalistSelector(std::size_t k, double slack);

    /// Scores below this cannot enter any more.
    [[nodiscard]] double cut() const noexcept { return cut_; }

    void offer(std::size_t row, double score) {
        if (score >= cut_) insert(row, score);
    }

    /// Rows that are left, in ascending order. Ends the selection.
    [[nodiscard]] std::vector<std::size_t> finalists();

private:
    struct Candidate {
        std::size_t row;
        double score;
    };

    void insert(std::size_t row, double score);
    void prune();

    std::size_t k_;
    double width_;  // 2 * slack: from the k-th best score down to the cut
    double cut_;
    std::vector<double> best_;  // min-heap of the k best approximate scores
    std::vector<Candidate> candidates_;
    std::size_t limit_;
};

}  // namespace flashbulb
