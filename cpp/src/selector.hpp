#pragma once

#include <cstddef>
#include <vector>

namespace flashbulb {

/// Keeps every row that can still be among the k best, given a lower and an upper bound of its
/// score. A row is dropped only when its upper bound lies strictly below the k-th best lower bound.
class FinalistSelector {
public:
    explicit FinalistSelector(std::size_t k);

    /// Rows with an upper bound below this cannot enter any more.
    [[nodiscard]] double cut() const noexcept { return cut_; }

    void offer(std::size_t row, double lower, double upper) {
        if (upper >= cut_) insert(row, lower, upper);
    }

    /// Takes over what another one has kept of other rows.
    void merge(const FinalistSelector& other);

    /// Rows that are left, in ascending order. Ends the selection.
    [[nodiscard]] std::vector<std::size_t> finalists();

private:
    struct Candidate {
        std::size_t row;
        double upper;
    };

    void insert(std::size_t row, double lower, double upper);
    void raise(double lower);
    void prune();

    std::size_t k_;
    double cut_;
    std::vector<double> best_;  // min-heap of the k best lower bounds
    std::vector<Candidate> candidates_;
    std::size_t limit_;
};

}  // namespace flashbulb
