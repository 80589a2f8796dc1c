#pragma once
// Chooses the elements that are checked: all if there are few, otherwise those along each axis and
// some more.

#include <mha/formats/onnx_contraction.hpp>

#include <algorithm>

namespace mha::io {

constexpr std::int64_t onnx_few_places = 512;

/// Calls `holds` with positions along axes of these lengths until it returns false; if there are
/// few, with all positions. Steps that only move elements treat each axis separately, so checks
/// along each axis are enough.
template <class Holds> bool onnx_holds_at_places(const OnnxDims& lengths, Holds holds) {
  const std::int64_t count = onnx_count(lengths);
  if (count <= onnx_few_places) {
    for (std::int64_t flat = 0; flat < count; ++flat)
      if (!holds(onnx_places(lengths, flat))) return false;
    return true;
  }
  OnnxPlaces places(lengths.size(), 0);
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
  return true;
}

/// The same with more positions, for steps that treat every element differently: all of a few
/// thousand, or as many that are spread over all.
template <class Holds> bool onnx_holds_at_more_places(const OnnxDims& lengths, Holds holds) {
  constexpr std::int64_t many = 2048;
  constexpr std::uint64_t spread = 0x9E3779B97F4A7C15;
  const std::int64_t count = onnx_count(lengths);
  if (count <= onnx_few_places) return true;
  for (std::int64_t i = 0; i < std::min(count, many); ++i) {
    const std::uint64_t at =
        (static_cast<std::uint64_t>(i) * spread >> 20) % static_cast<std::uint64_t>(count);
    if (!holds(onnx_places(lengths, count <= many ? i : static_cast<std::int64_t>(at))))
      return false;
  }
  return true;
}

} // namespace mha::io
