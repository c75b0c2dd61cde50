// Compiled once per SIMD level with FLASHBULB_LEVEL set to its name.

#include "kernels/table.hpp"

#if defined(__AVX512F__) || defined(__AVX2__) || defined(__SSE2__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

#define FLASHBULB_CONCAT_(a, b) a##b
#define FLASHBULB_CONCAT(a, b) FLASHBULB_CONCAT_(a, b)

namespace flashbulb::kernels {

namespace {

// The order matters: each file uses what the ones above it define.
// clang-format off
#include "kernels/vec.inl"
#include "kernels/laws.inl"
#include "kernels/lanes.inl"
#include "kernels/decay.inl"
#include "kernels/filter.inl"
#include "kernels/search.inl"
#include "kernels/sketch.inl"
#include "kernels/batch.inl"
#include "kernels/welford.inl"
#include "kernels/decode.inl"
#include "kernels/checksum.inl"
// clang-format on

}  // namespace

const KernelTable& FLASHBULB_CONCAT(table_, FLASHBULB_LEVEL)() noexcept {
    static constexpr KernelTable table = {
        select_inner_products,
        rotate,
        encode,
        code_query,
        scan_int4,
        gather_int4,
        scan_int8,
        unpack_codes,
        batch_products,
        batch_code_limit,
        tile_kernel,
        select_batch,
        inner_product,
        divide,
        vividness,
        bonus,
        bonus_bounds,
        bound_scores,
        place_of_largest,
        filter_flags,
        filter_times,
        filter_blooms,
        mark_rows,
        welford_update,
        welford_merge,
        squared_distance,
        decode_float16,
        decode_uint8,
        chain,
    };
    return table;
}

}  // namespace flashbulb::kernels
