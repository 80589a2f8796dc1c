#pragma once
// Ticks along the sides of a panel: tokens, or round positions.

#include <mha/render/map.hpp>

namespace mha::render {

/// Pixels of the em square: of ticks and of numbers, and between which tokens are written.
inline constexpr double tick_size = 10, smallest_label = 8.5, largest_label = 11;

/// Pixels that a text takes.
double text_width(std::string_view text, double size);
/// Rounded up; 0 for what is negative.
std::size_t whole(double pixels);

/// A label of an axis and the middle of what it stands for, in cells.
struct Tick {
  double cell = 0;
  std::string text;
};

/// The labels of one side of a panel.
struct Ticks {
  std::vector<Tick> list;
  double size = tick_size;
  bool tokens = false; ///< every cell has its token; else numbers stand at round positions
  double longest = 0;  ///< pixels

  void measure();
};

/// Of an axis whose cells have `cell` pixels; `rows`: it runs downwards.
Ticks ticks_of(const MapAxis& axis, double cell, bool rows);

/// A label beside the colour bar: 0 is its low end, 1 its high one.
struct BarTick {
  double place = 0;
  std::string text;
};
/// Of a bar of so many pixels.
std::vector<BarTick> bar_ticks(const MapPicture& picture, std::size_t height);

} // namespace mha::render
