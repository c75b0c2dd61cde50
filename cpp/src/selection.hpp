#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "batch_products.hpp"
#include "block_filter.hpp"
#include "coded_queries.hpp"
#include "flashbulb/search.hpp"
#include "kernels/table.hpp"
#include "row_set.hpp"
#include "score.hpp"
#include "selector.hpp"

namespace flashbulb {

/// What every part of a search knows: the store, the request, and everything that follows from them
/// once. Read by several threads.
struct SelectionPlan {
    SelectionPlan(const VectorView& store, const TraceTable& table, const SearchRequest& wanted);

    /// Where to cut the rows for several threads: 0, the ends of ranges with about the same work
    /// each, rows. One range if it is not worth more.
    [[nodiscard]] std::vector<std::size_t> cuts() const;

    const VectorView& vectors;
    const TraceTable& traces;
    const SearchRequest& request;
    std::size_t k;
    bool coarse;                                ///< int4 first, int8 for what may be wanted
    bool batch;                                 ///< groups of queries share unpacked blocks
    bool tiles;                                 ///< by matrix tiles
    bool full_batch;                            ///< batches multiply both planes
    std::optional<CodedQueries> queries;        ///< if there is a sketch
    std::shared_ptr<const BonusBounds> bounds;  ///< may be null: computed block by block
    kernels::LawColumns columns;
    kernels::LawParameters laws;        ///< with the weights of the request
    kernels::LawParameters plain_laws;  ///< with weights of 1
    Ramps ramps;
    kernels::BoundParameters bound;  ///< without the errors of a query
    float float32_error;             ///< of a similarity from the rows themselves
    double error_scale;              ///< from the error of a cosine to that of a similarity
    double error_offset;             ///< what the float64 sums round away
    float rounding;                  ///< what the float32 bounds round away
};

/// One pass over a range of rows, which keeps for each query the rows that may be among its best.
class Selection {
public:
    explicit Selection(const SelectionPlan& plan);

    /// Looks at the rows [begin, end).
    void scan(std::size_t begin, std::size_t end);
    /// Looks at the rows of a set.
    void scan(const RowSet& rows);
    void merge(const Selection& other);

    /// What a pass over all rows keeps, by several threads where that pays: the rows that can be
    /// among the best are in it either way.
    static std::unique_ptr<Selection> of_all_rows(const SelectionPlan& plan);

    [[nodiscard]] FinalistSelector& selector(std::size_t query) { return selectors_[query]; }
    /// Rows that passed the filter.
    [[nodiscard]] std::size_t allowed() const noexcept { return allowed_; }

private:
    /// Rows begin .. begin + count - 1, or of these only those at places_[0 .. wanted).
    struct Block {
        std::size_t begin;
        std::size_t count;
        std::size_t wanted;
        bool sparse;  ///< only the wanted rows are read: columns are compact, places say which
    };

    void start(std::size_t begin);
    void scan_range(std::size_t begin, std::size_t count);
    void scan_places(std::size_t begin, std::size_t count);
    void scan_block(const Block& block);
    void finish();
    void scan_query(std::size_t query, const Block& block);
    void scan_batch(const Block& block);
    void scan_sub_block(const Block& block, std::size_t first, std::size_t count);
    void take_columns(const Block& block);
    void take_hits(std::size_t group, std::size_t first, std::size_t hits,
                   const std::int32_t* products, const Block& block);
    [[nodiscard]] std::size_t place(const Block& block, std::size_t i) const noexcept {
        return block.sparse ? places_[i] : i;
    }
    /// Rows that may be wanted, until they are looked at.
    struct Survivors {
        struct Row {
            std::size_t row;
            double addend;
            float cosine;
            float residual;
            std::uint16_t vividness;
            std::uint16_t recency;
        };
        std::vector<Row> rows;
        std::vector<float> upper;  ///< of their scores
    };
    /// Looks at a query's survivors, the most promising first: the cut rises at once, and spares
    /// most of the others.
    void consider_survivors(std::size_t query);
    /// Calls action(i, number) for the wanted rows of the block that have an addend: row i of its
    /// columns, addend `number` of the query.
    template <class Action>
    void visit_addends(std::size_t query, const Block& block, Action&& action);
    [[nodiscard]] double addend_of(std::size_t query, std::size_t row) const;
    /// The largest score that a similarity and codes of the bonus allow.
    [[nodiscard]] double upper_bound(double similarity, std::uint16_t vividness,
                                     std::uint16_t recency) const;
    /// Offers a row to a query, after a closer look if the cosine came from a sketch.
    void consider(std::size_t query, std::size_t row, double cosine, double error, bool refine,
                  double addend, std::uint16_t vividness, std::uint16_t recency);
    void prefetch_columns(std::size_t row) const noexcept;
    void prefetch_low(std::size_t row) const noexcept;

    const SelectionPlan& plan_;
    std::vector<FinalistSelector> selectors_;
    std::vector<Survivors> survivors_;  // of each query
    std::vector<Cursor> addends_;
    std::optional<BlockFilter> filter_;
    std::size_t allowed_ = 0;

    // Columns of the block in work.
    alignas(64) std::array<std::uint8_t, block_rows> mask_{};
    alignas(64) std::array<std::uint16_t, block_rows> places_{};
    alignas(64) std::array<float, block_rows> cosines_{};
    alignas(64) std::array<float, block_rows> upper_{};
    alignas(64) std::array<std::uint16_t, block_rows> above_{};
    alignas(64) std::array<float, block_rows> scales_{};
    alignas(64) std::array<float, block_rows> residuals_{};
    alignas(64) std::array<float, block_rows> addend_values_{};
    alignas(64) std::array<std::uint16_t, block_rows> vividness_{};
    alignas(64) std::array<std::uint16_t, block_rows> recency_{};
    const float* block_vectors_ = nullptr;
    const float* block_scales_ = nullptr;
    const float* block_residuals_ = nullptr;
    const std::uint16_t* block_vividness_ = nullptr;
    const std::uint16_t* block_recency_ = nullptr;

    std::vector<float> fetched_;  // rows that are not stored in float32

    std::optional<BatchProducts> batch_;
    std::vector<std::uint16_t> hits_;
};

}  // namespace flashbulb
