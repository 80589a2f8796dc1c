#pragma once
// Colours for numbers.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace mha::render {

struct Rgb {
  std::uint8_t red = 0, green = 0, blue = 0;
  bool operator==(const Rgb&) const = default;
};
/// "#440154".
std::string hex(Rgb color);
/// Between two colours: `share` 0 is the first, 1 the second.
Rgb mixed(Rgb first, Rgb second, double share);

/// A colour map: control points at equal distances, in between linear.
struct ColorMap {
  std::string_view name;
  std::string_view title; ///< for help and docs
  bool diverging = false; ///< its middle stands for zero
  std::span<const std::uint32_t> points;
  /// Of the 256 colours of a terminal those that stand for the map, from its low end to its high
  /// one: ordered in lightness as the map is.
  std::span<const std::uint8_t> terminal;

  /// The colour of t, from 0 to 1; beyond, the ends.
  Rgb at(double t) const;
  /// The terminal's colour of t: equal parts of [0, 1] have one each.
  std::uint8_t terminal_at(double t) const;
};

/// viridis and magma (van der Walt and Smith, matplotlib 2), greys, and diverging: ColorBrewer's
/// RdBu, blue below zero and red above.
std::span<const ColorMap> color_maps();
/// By name; throws Error with "did you mean".
const ColorMap& color_map_named(std::string_view name);

/// Of the 240 colours beside the first 16 that terminals with 256 colours have, the nearest.
std::uint8_t terminal_color(Rgb color);
/// The colour behind one of their codes, 16 to 255. Throws Error for another.
Rgb terminal_rgb(std::uint8_t code);

} // namespace mha::render
