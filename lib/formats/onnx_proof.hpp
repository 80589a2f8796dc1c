#pragma once
// Elements that a proof looks at: all of few, and of many those along each axis and some more.

#include <mha/formats/onnx_contraction.hpp>

namespace mha::io {

/// Calls `holds` with places along axes of these lengths, until one does not hold: with all places
/// where there are few. `closely`: where a table decides about single elements, with all of some
/// thousands, and as many of more. Steps that only move elements do so by axes, so that what holds
/// along each axis holds for all.
template <class Holds>
bool onnx_holds_at_places(const OnnxDims& lengths, bool closely, Holds holds) {
  constexpr std::int64_t few = 512, many = 2048;
  const std::int64_t count = onnx_count(lengths);
  if (count <= (closely ? many : few)) {
    for (std::int64_t flat = 0; flat < count; ++flat)
      if (!holds(onnx_places(lengths, flat))) return false;
    return true;
  }
  OnnxDims places(lengths.size());
  for (std::size_t axis = 0; axis < lengths.size(); ++axis)
    for (std::int64_t at = 0; at < lengths[axis]; ++at)
      for (const int turn : {0, 1, 2}) {
        for (std::size_t i = 0; i < lengths.size(); ++i)
          places[i] = i == axis   ? at
                      : turn == 0 ? 0
                      : turn == 1 ? lengths[i] - 1
                                  : (at * 5 + static_cast<std::int64_t>(i) * 3 + 1) % lengths[i];
        if (!holds(places)) return false;
      }
  constexpr std::uint64_t spread = 0x9E3779B97F4A7C15; // places far from one another
  for (std::uint64_t i = 0; closely && i < static_cast<std::uint64_t>(many); ++i) {
    const std::uint64_t at = (i * spread >> 20) % static_cast<std::uint64_t>(count);
    if (!holds(onnx_places(lengths, static_cast<std::int64_t>(at)))) return false;
  }
  return true;
}

} // namespace mha::io
