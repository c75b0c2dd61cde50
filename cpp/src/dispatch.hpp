#pragma once

#include "kernels/table.hpp"

namespace flashbulb {

/// The kernels of the active SIMD level.
/// @throws std::invalid_argument as active_simd_level() does.
[[nodiscard]] const kernels::KernelTable& active_kernels();

}  // namespace flashbulb
