#pragma once
// Text on a picture: ticks along its sides, titles above its panels, numbers in its cells.

#include <mha/render/map.hpp>

namespace mha::render {

/// Pixels of the em square: of ticks and of numbers, and between which tokens are written.
inline constexpr double tick_size = 10, smallest_label = 8.5, largest_label = 11;

/// Pixels that a text takes.
double text_width(std::string_view text, double size);
/// Rounded up; 0 for negative values.
std::size_t whole(double pixels);

/// A label of an axis, and the middle of what it labels, in cells.
struct Tick {
  double cell = 0;
  std::string text;
};

/// The labels of one side of a panel.
struct Ticks {
  std::vector<Tick> list;
  double size = tick_size;
  bool tokens = false; ///< every cell has its token; else numbers are at round positions
  double longest = 0;  ///< pixels

  void measure();
};

/// The ticks of an axis whose cells have `cell` pixels; `rows`: it runs downwards.
Ticks ticks_of(const MapAxis& axis, double cell, bool rows);

/// A label beside the colour bar: 0 is its low end, 1 its high one.
struct BarTick {
  double place = 0;
  std::string text;
};
/// The ticks of a colour bar of `height` pixels.
std::vector<BarTick> bar_ticks(const MapPicture& picture, std::size_t height);

struct MapTitles {
  double size = 0;   ///< pixels of the em square
  double widest = 0; ///< pixels; more than there is room for only where not even the least fits
  std::vector<std::vector<std::string>> lines; ///< of each panel, from above; as many for each
};

/// "layer 1 head 3" where that fits into `room` pixels, else "L1 H3", else in smaller letters; with
/// --per-head-range the colours' ends beside it or below. All panels are titled alike.
MapTitles fit_titles(const MapPicture& picture, double room);

/// The numbers of cells as text: all in as many decimals as give the largest one three digits.
class CellNumbers {
public:
  explicit CellNumbers(const MapPicture& picture);
  std::string text(double value) const;
  /// Pixels of the side of a cell that holds the widest of them.
  std::size_t side() const { return side_; }

private:
  bool scientific_ = false;
  int decimals_ = 2;
  std::size_t side_ = 0;
};

/// Black or white, whichever is readable on a cell's colour.
Rgb ink_on(Rgb ground);

} // namespace mha::render
