#pragma once

#include <optional>
#include <span>
#include <vector>

#include "flashbulb/sketch.hpp"
#include "flashbulb/traces.hpp"
#include "flashbulb/views.hpp"

namespace flashbulb {

/// Retrieval-induced forgetting: what is close to an accessed memory and was not accessed itself
/// loses strength, by the largest cosine only.
///
/// @param accessed rows that were accessed
/// @param related  rows to look at; all live rows if absent
/// @param sketch   of the vectors, makes looking at all rows faster
/// @return rows whose strength moved, ascending
std::vector<std::size_t> suppress(const VectorView& vectors, TraceTable& traces,
                                  std::span<const std::size_t> accessed,
                                  std::optional<std::span<const std::size_t>> related, double now,
                                  const Sketch* sketch = nullptr);

}  // namespace flashbulb
