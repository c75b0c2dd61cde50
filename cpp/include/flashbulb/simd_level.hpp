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

/// Levels that were compiled in and that can run here, lowest first. `v4_amx` is one of them only
/// where the system lets this process use matrix tiles and the environment variable FLASHBULB_AMX
/// is not 0; hence it is in use exactly when tiles are.
[[nodiscard]] std::vector<SimdLevel> supported_simd_levels();

/// The level in use. On first use it is the one that the environment variable
/// FLASHBULB_SIMD_LEVEL names, or else the highest supported one.
/// @throws std::invalid_argument if the variable names an unknown or unsupported level, or
///         FLASHBULB_AMX is set to anything but 0 or 1.
[[nodiscard]] SimdLevel active_simd_level();

/// Switches every later call to another level (for tests and benchmarks).
/// @throws std::invalid_argument if `name` is unknown or the level cannot run here.
void set_simd_level(std::string_view name);

}  // namespace flashbulb
