#pragma once

#include "kernels/table.hpp"

namespace flashbulb {

/// The kernels of the active SIMD level.
/// @throws std::invalid_argument on first use if FLASHBULB_SIMD_LEVEL cannot be met.
[[nodiscard]] const kernels::KernelTable& active_kernels();

/// Whether the system lets this process use matrix tiles; asked at the first call. The environment
/// variable FLASHBULB_AMX=0 switches them off.
[[nodiscard]] bool tiles_permitted();

}  // namespace flashbulb
