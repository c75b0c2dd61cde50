#pragma once

#include <string_view>
#include <vector>

namespace flashbulb {

/// Instruction set a kernel was compiled for. `base` is what the compiler may assume of every
/// processor of the architecture (SSE2 on x86-64, NEON on arm64).
enum class SimdLevel {
    base,
    v3,       ///< AVX2 and FMA
    v3_vnni,  ///< v3 and AVX-VNNI
    v4,       ///< AVX-512 F, BW, DQ, VL
    v4_vnni,  ///< v4 and AVX-512 VNNI
    v4_amx,   ///< v4_vnni and AMX int8 tiles, for batches of queries
    dotprod,  ///< arm64 with the dot products of Armv8.2
};

[[nodiscard]] std::string_view to_string(SimdLevel level) noexcept;

/// Levels that were compiled in and that this processor can run, lowest first.
[[nodiscard]] std::vector<SimdLevel> supported_simd_levels();

/// The level in use. On first use it is the one that the environment variable
/// FLASHBULB_SIMD_LEVEL names, or else the highest supported one.
/// @throws std::invalid_argument if the variable names an unknown or unsupported level.
[[nodiscard]] SimdLevel active_simd_level();

/// Switches every later call to another level (for tests and benchmarks).
/// @throws std::invalid_argument if `name` is unknown or this processor lacks the level.
void set_simd_level(std::string_view name);

}  // namespace flashbulb
