#pragma once

// The private table of kernels. A kernel translation unit includes this and standard C headers
// only: an inline function of the standard library instantiated there would be a weak symbol
// compiled for one SIMD level, which the linker may pick for every other level too.

#include <cstddef>
#include <cstdint>

namespace flashbulb::kernels {

/// Constants of decay and bonus, with times in seconds.
struct LawParameters {
    bool asymptotic;
    double now;
    double vividness_weight;
    double recency_weight;
    double recency_rate;  ///< per second: 1 / (recency_days * 86400), rounded
};

/// Columns that decay and bonus read, one value a row.
struct LawColumns {
    const double* vividness;       ///< anchor v0
    const double* vividness_time;  ///< time of the anchor, epoch seconds
    const double* decay_rate;      ///< per second; 0 for pinned rows
    const double* floor;
    const double* task_shift;      ///< what the task state adds to vividness
    const double* bonus_salience;  ///< salience that counts in the bonus
    const double* recency_time;    ///< later of creation and last access, epoch seconds
};

/// A factor that rises linearly from 0 at a similarity of `start` to 1 at start + 1/slope.
struct Ramp {
    double start;
    double slope;
};

/// What turns approximate cosines into upper bounds of scores. All of it is rounded so that float32
/// arithmetic with it never falls below the exact value.
struct BoundParameters {
    float similarity_weight;
    float residual_slope;   ///< error of a similarity: residual_slope * residual + error
    float error;            ///< with the slack for rounding
    float vividness_scale;  ///< from bonus codes to unscaled bonuses
    float recency_scale;
    float vividness_start;
    float vividness_slope;
    float recency_start;
    float recency_slope;
};

/// Per row of a block, what goes into its bound.
struct BoundColumns {
    const float* cosines;
    const float* residuals;
    const std::uint16_t* vividness;  ///< codes of TraceTable::bonus_bounds
    const std::uint16_t* recency;
    const float* addends;      ///< may be null: none
    const std::uint8_t* mask;  ///< rows that count; may be null: all
};

/// A rotated query coded for sketched rows, q ~ scale * (254 * high + low). Digits are padded with
/// zeros to two for each byte of a plane, and aligned to 64 bytes.
struct CodedQuery {
    const std::int8_t* high;
    const std::int8_t* low;
    std::int32_t high_bias4;  ///< 241 times the sum of high
    std::int32_t high_bias8;  ///< 128 times the sum of high
    std::int32_t low_bias8;   ///< 128 times the sum of low
    float scale4;             ///< half a step of the high digit
    float scale8;             ///< a step of the low digit
};

/// What coding a query says of it.
struct QueryCodes {
    float low_step;  ///< q ~ low_step * (254 * high + low)
    std::int32_t high_sum;
    std::int32_t low_sum;
    double missed4;  ///< squared norm of q - low_step * 254 * high
    double missed8;  ///< squared norm of q - low_step * (254 * high + low)
};

/// What a batch of 16 queries brings to `select_batch`.
struct BatchLanes {
    alignas(64) std::int32_t bias[16];
    alignas(64) float scale[16];
    alignas(64) float cut[16];
    int shift;  ///< 0, or 5 for codes of the high plane alone
};

struct KernelTable {
    /// out[i] = <query, rows[i]> in float32, any order of summation: for selection only.
    void (*select_inner_products)(const float* query, const float* rows, std::size_t count,
                                  std::size_t dim, float* out) noexcept;

    /// Random signs and Hadamard transforms: `stages` of them over `width` values, a power of two,
    /// in turn the first and the last of `dim`; factors (stages, width), scratch `width`, out `dim`
    /// values. Same bits at every level.
    void (*rotate)(const float* values, std::size_t dim, std::size_t width, std::size_t stages,
                   const float* factors, float* scratch, float* out) noexcept;

    /// Codes of one rotated row in two planes of `stride` bytes, with upper bounds of what they
    /// miss. Same bits at every level.
    void (*encode)(const float* rotated, std::size_t dim, std::size_t stride, std::uint8_t* high,
                   std::uint8_t* low, float* scale, float* residual4, float* residual8) noexcept;

    /// Digits of a rotated query. Same bits at every level.
    void (*code_query)(const float* rotated, std::size_t dim, std::int8_t* high, std::int8_t* low,
                       QueryCodes* out) noexcept;

    /// out[i] ~ <query, row i> from the high plane of `count` rows and the query's high digits.
    void (*scan_int4)(const std::uint8_t* high, std::size_t count, std::size_t stride,
                      const CodedQuery& query, const float* scales, float* out) noexcept;

    /// The same for the rows at `places`; scales are those of these rows, in this order.
    void (*gather_int4)(const std::uint8_t* high, const std::uint16_t* places, std::size_t count,
                        std::size_t stride, const CodedQuery& query, const float* scales,
                        float* out) noexcept;

    /// The same from both planes and both digits.
    void (*scan_int8)(const std::uint8_t* high, const std::uint8_t* low, std::size_t count,
                      std::size_t stride, const CodedQuery& query, const float* scales,
                      float* out) noexcept;

    /// rows[i] = the codes of row i, one a byte, 2 * stride of them: 16 * high + low, or high alone
    /// if low is null.
    void (*unpack_codes)(const std::uint8_t* high, const std::uint8_t* low, std::size_t count,
                         std::size_t stride, std::uint8_t* rows) noexcept;

    /// Products of rows of unpacked codes with a group of 16 queries, packed as (width / 4, 16, 4)
    /// bytes: out (count, 16). Codes are at most `batch_limit`.
    void (*batch_products)(const std::uint8_t* rows, std::size_t count, std::size_t width,
                           const std::int8_t* packed, std::int32_t* out) noexcept;
    int batch_limit;  ///< 15 or 255

    /// The same by matrix tiles, for two groups and 32 rows at a time: out (groups, count, 16),
    /// count a multiple of 32, an even number of groups. Null where the level has no tiles.
    void (*tile_products)(const std::uint8_t* rows, std::size_t count, std::size_t width,
                          const std::int8_t* packed, std::size_t groups,
                          std::int32_t* out) noexcept;

    /// The pairs of a block and a group of 16 queries that may be wanted: those with
    /// lane_scale * ((product << shift) - lane_bias) * row_scale + row_base >= lane_cut.
    /// hits[j] = 16 * row + lane. @return how many.
    std::size_t (*select_batch)(const std::int32_t* products, std::size_t count,
                                const float* row_scale, const float* row_base,
                                const BatchLanes& lanes, std::uint16_t* hits) noexcept;

    /// The one definition: float64 products in 8 lanes and a fixed tree. Same bits at every level.
    double (*inner_product)(const float* a, const float* b, std::size_t dim) noexcept;

    /// out[i] = values[i] / divisor, rounded once. Same bits at every level. out may be values.
    void (*divide)(const float* values, double divisor, std::size_t dim, float* out) noexcept;

    /// Vividness of `count` rows at `now`. Same bits at every level.
    void (*vividness)(const LawColumns& columns, std::size_t begin, std::size_t count,
                      const LawParameters& parameters, double* out) noexcept;

    /// Unscaled vividness and recency bonus of `count` rows. Same bits at every level.
    void (*bonus)(const LawColumns& columns, std::size_t begin, std::size_t count,
                  const LawParameters& parameters, double* vividness_bonus,
                  double* recency_bonus) noexcept;

    /// Bounds of both factors of the bonus at `now` and later, for weights of 1, as value * 65535
    /// rounded up: code * bonus_bound_step is never below what `bonus` gives at any level.
    void (*bonus_bounds)(const LawColumns& columns, std::size_t begin, std::size_t count,
                         const LawParameters& parameters, std::uint16_t* vividness,
                         std::uint16_t* recency) noexcept;

    /// Upper bounds of scores: upper[i] = F(w cosine + addend + error) with F the ramped sum; -inf
    /// where mask[i] == 0. Those that are at least `cut` stand at `places` (ascending, room for
    /// `count`). @pre cut > -inf. @return how many.
    std::size_t (*bound_scores)(const BoundColumns& columns, std::size_t count,
                                const BoundParameters& parameters, float cut, float* upper,
                                std::uint16_t* places) noexcept;

    /// Where the largest value stands; among equal ones, any of them. @pre count > 0
    std::size_t (*place_of_largest)(const float* values, std::size_t count) noexcept;

    /// mask[i] = (flags[i] & care) == want
    void (*filter_flags)(const std::uint8_t* flags, std::size_t count, std::uint8_t care,
                         std::uint8_t want, std::uint8_t* mask) noexcept;

    /// mask[i] &= since <= times[i] && times[i] < until
    void (*filter_times)(const double* times, std::size_t count, double since, double until,
                         std::uint8_t* mask) noexcept;

    /// mask[i] &= (blooms[i] & wanted) == wanted
    void (*filter_blooms)(const std::uint64_t* blooms, std::size_t count, std::uint64_t wanted,
                          std::uint8_t* mask) noexcept;

    /// Sets bit i of words if (flags[i] & any) != 0 or the bonus is at least `threshold`; of a last
    /// word as well, whose other bits stay.
    void (*mark_rows)(const std::uint8_t* flags, std::uint8_t any, const std::uint16_t* vividness,
                      const std::uint16_t* recency, std::size_t count, float vividness_scale,
                      float recency_scale, float threshold, std::uint64_t* words) noexcept;

    /// Welford's update of `dim` streams at once with `count` rows, one after the other; n counts
    /// those before. squared[i] = squared L2 distance of row i to the mean before it, as
    /// squared_distance gives it. Same bits at every level.
    void (*welford_update)(const float* rows, std::size_t count, std::size_t dim, double n,
                           double* mean, double* m2, double* squared) noexcept;

    /// Chan's merge of two sets of `dim` moments; counts n > 0 and other_n > 0.
    void (*welford_merge)(std::size_t dim, double n, double* mean, double* m2, double other_n,
                          const double* other_mean, const double* other_m2) noexcept;

    /// Squared L2 distance of a vector to a centroid, in 8 lanes. Same bits at every level.
    double (*squared_distance)(const float* values, const double* centroid,
                               std::size_t dim) noexcept;

    /// IEEE halves as float32. Same bits at every level.
    void (*decode_float16)(const std::uint16_t* codes, std::size_t count, float* out) noexcept;

    /// One row of 8-bit codes: minimum + ((code + 0.5) / 255) * range in float32, each step
    /// rounded. Same bits at every level.
    void (*decode_uint8)(const std::uint8_t* codes, const float* minimum, const float* range,
                         std::size_t dim, float* out) noexcept;

    /// Takes `stripes` times 64 bytes into the eight chains of a checksum, word i of a stripe into
    /// state[i] by the formula in checksum.inl. Same bits at every level.
    void (*chain)(const std::uint8_t* data, std::size_t stripes, std::uint64_t* state) noexcept;
};

// One function per level, defined by table.cpp compiled for that level.
const KernelTable& table_base() noexcept;
const KernelTable& table_v3() noexcept;
const KernelTable& table_v3_vnni() noexcept;
const KernelTable& table_v4() noexcept;
const KernelTable& table_v4_vnni() noexcept;
const KernelTable& table_v4_amx() noexcept;
const KernelTable& table_dotprod() noexcept;

}  // namespace flashbulb::kernels
