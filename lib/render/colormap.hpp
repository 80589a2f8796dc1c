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
  bool diverging = false; ///< its middle is zero
  std::span<const std::uint32_t> points;
  /// The map in the 256 colours of a terminal, from its low end to its high one, ordered in
  /// lightness like the map.
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

/// The code of the nearest of the 240 fixed colours, 16 to 255, of terminals with 256 colours.
std::uint8_t terminal_color(Rgb color);
/// The colour of such a code. Throws Error for another.
Rgb terminal_rgb(std::uint8_t code);

} // namespace mha::render
