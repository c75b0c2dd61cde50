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
    double recency_seconds;
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

/// Similarity to score.
struct FuseParameters {
    double similarity_weight;
    Ramp vividness;  ///< scales the vividness bonus
    Ramp recency;    ///< scales the recency bonus
};

/// A query coded for int8 rows: q ~ scale * (254 * high + low). Arrays are padded with zeros to the
/// stride of the rows and aligned to 64 bytes.
struct Int8Query {
    const std::int8_t* high;
    const std::int8_t* low;
    std::int32_t high_bias;  ///< 128 * sum of high: codes are taken as unsigned, 128 too large
    std::int32_t low_bias;
    float scale;
};

struct KernelTable {
    /// out[i] = <query, rows[i]> in float32, any order of summation: for selection only.
    void (*select_inner_products)(const float* query, const float* rows, std::size_t count,
                                  std::size_t dim, float* out) noexcept;

    /// Codes of one row, with scale and an upper bound of |row - scale * codes|; stride >= dim.
    void (*encode_int8)(const float* row, std::size_t dim, std::size_t stride, std::int8_t* codes,
                        float* scale, float* residual) noexcept;

    /// out[i] ~ <query, row i> from the codes of `count` rows, aligned to 64 bytes.
    void (*scan_int8)(const std::int8_t* codes, std::size_t count, std::size_t stride,
                      const Int8Query& query, const float* scales, float* out) noexcept;

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

    /// Upper bounds of scores: upper[i] = F(similarity + errors[i]) with similarity =
    /// weight * cosines[i] + addends[i] and F the ramped sum; -inf where mask[i] == 0.
    /// @return the largest of them (-inf if there is none).
    double (*fuse)(const float* cosines, const double* errors, const double* addends,
                   const double* vividness_bonus, const double* recency_bonus,
                   const std::uint8_t* mask, std::size_t count, const FuseParameters& parameters,
                   double* upper) noexcept;

    /// mask[i] = (flags[i] & care) == want
    void (*filter_flags)(const std::uint8_t* flags, std::size_t count, std::uint8_t care,
                         std::uint8_t want, std::uint8_t* mask) noexcept;

    /// mask[i] &= since <= times[i] && times[i] < until
    void (*filter_times)(const double* times, std::size_t count, double since, double until,
                         std::uint8_t* mask) noexcept;

    /// mask[i] &= (blooms[i] & wanted) == wanted
    void (*filter_blooms)(const std::uint64_t* blooms, std::size_t count, std::uint64_t wanted,
                          std::uint8_t* mask) noexcept;

    /// Welford's update of `dim` streams at once with their next value; n counts this one.
    void (*welford_update)(const float* values, std::size_t dim, double n, double* mean,
                           double* m2) noexcept;

    /// Mean and sum of squared deviations of each column of rows (count, dim), two passes.
    void (*welford_block)(const float* rows, std::size_t count, std::size_t dim, double* mean,
                          double* m2) noexcept;

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
};

// One function per level, defined by table.cpp compiled for that level.
const KernelTable& table_base() noexcept;
const KernelTable& table_v3() noexcept;
const KernelTable& table_v3_vnni() noexcept;
const KernelTable& table_v4() noexcept;
const KernelTable& table_v4_vnni() noexcept;

}  // namespace flashbulb::kernels
