#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "coded_queries.hpp"
#include "flashbulb/sketch.hpp"
#include "kernels/table.hpp"

namespace flashbulb {

/// Products of blocks of sketched rows with all of many queries: the rows are unpacked once and
/// multiplied by matrix tiles where the processor has them and lets us, else by its vectors.
class BatchProducts {
public:
    /// Rows that a group of queries shares while they are unpacked: 24 KB at 384 values.
    static constexpr std::size_t most_rows = 64;

    /// Whether this level can multiply both planes at once; else only the high one.
    [[nodiscard]] static bool multiplies_both_planes();

    BatchProducts(const CodedQueries& queries, std::size_t stride, bool both_planes);

    [[nodiscard]] bool both_planes() const noexcept { return both_planes_; }

    /// Unpacks `count` rows of a run, from its row `source` on, as rows `target` .. of the block.
    void unpack(const Sketch::Run& run, std::size_t source, std::size_t count, std::size_t target);
    /// Ends the unpacking of a block of `count` rows.
    void start(std::size_t count);
    /// Products of the block with a group of queries, (count, 16).
    [[nodiscard]] const std::int32_t* of_group(std::size_t group);

    /// Of a query in its group: what turns products into `scale` times cosines.
    /// @param cut what a score must reach
    void set_lane(kernels::BatchLanes& lanes, std::size_t query, double scale, float cut) const;
    /// A lane that no score reaches.
    static void clear_lane(kernels::BatchLanes& lanes, std::size_t lane) noexcept;
    /// The cosine that a product stands for.
    [[nodiscard]] double cosine(std::size_t query, std::int32_t product,
                                float row_scale) const noexcept;

private:
    const CodedQueries& queries_;
    std::size_t stride_;
    bool both_planes_;
    bool tiles_;
    std::size_t count_ = 0;
    std::size_t padded_ = 0;
    std::vector<std::uint8_t> memory_;
    std::uint8_t* rows_;  // aligned to 64 bytes, in memory_
    std::vector<std::int32_t> products_;
};

}  // namespace flashbulb
