#pragma once

#include "kernels/table.hpp"

namespace flashbulb {

/// The kernels of the active SIMD level.
/// @throws std::invalid_argument on first use if FLASHBULB_SIMD_LEVEL cannot be met.
[[nodiscard]] const kernels::KernelTable& active_kernels();

}  // namespace flashbulb
