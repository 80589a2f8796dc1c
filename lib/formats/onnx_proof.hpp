#pragma once
// Elements that a proof looks at: all of few, and of many those along each axis and some more.

#include <mha/formats/onnx_contraction.hpp>

#include <algorithm>

namespace mha::io {

constexpr std::int64_t onnx_few_places = 512;

/// Calls `holds` with places along axes of these lengths, until one does not hold: with all places
/// where there are few. Steps that only move elements do so by axes, so that what holds along each
/// axis holds for all.
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

/// The same with those that a closer look adds, where a table decides about single elements: all of
/// some thousands, and as many of more, far from one another.
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
