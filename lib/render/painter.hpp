#pragma once
// Painters of pictures, one for each format of files, and the runs of cells that they draw.

#include <mha/render/map.hpp>
#include <mha/render/map_layout.hpp>

#include <cmath>

namespace mha::render {

/// Draws marks of a layout, later ones over earlier ones.
class Painter {
public:
  virtual ~Painter() = default;
  /// A panel's cells, masked ones hatched.
  virtual void cells(const PanelMark& mark, const MapPanel& panel, const MapStyle& style) = 0;
  /// The colours of a style, the highest number on top.
  virtual void bar(const BoxMark& box, const MapStyle& style) = 0;
  virtual void fill(const BoxMark& box, Rgb color) = 0;
  virtual void hatch(const BoxMark& box) = 0;
  /// Frames and ticks.
  virtual void lines(const std::vector<LineMark>& lines) = 0;
  virtual void text(const TextMark& mark) = 0;
};

/// Draws all of a picture.
void paint(const MapPicture& picture, const MapLayout& layout, Painter& painter);

/// Cells [col, end) of a row, of one colour; none of them is masked.
struct SameColor {
  std::size_t row = 0, col = 0, end = 0;
  Rgb color;
};

inline Rgb cell_color(const MapPanel& panel, const MapStyle& style, std::size_t row,
                      std::size_t col) {
  const double value = panel.map.value(row, col);
  return std::isnan(value) ? nan_color : style.color(value);
}

/// The side of a cell in an embedded picture: several pixels, since many viewers smooth a picture
/// that they enlarge, against the file's wish; fewer where there are many cells.
inline std::size_t pixels_a_cell(const MapPicture& picture) {
  constexpr double most_pixels = 4e6;
  const double side =
      std::sqrt(most_pixels / static_cast<double>(std::max<std::size_t>(picture.cells(), 1)));
  return std::clamp<std::size_t>(static_cast<std::size_t>(side), 1, 8);
}

/// Calls draw(run) row after row, from left to right.
template <class Draw>
void for_each_run(const MapPanel& panel, const MapStyle& style, const Draw& draw) {
  for (std::size_t row = 0; row < panel.map.rows; ++row)
    for (std::size_t col = 0; col < panel.map.cols;) {
      if (panel.map.is_masked(row, col)) {
        ++col;
        continue;
      }
      SameColor run{row, col, col + 1, cell_color(panel, style, row, col)};
      while (run.end < panel.map.cols && !panel.map.is_masked(row, run.end) &&
             cell_color(panel, style, row, run.end) == run.color)
        ++run.end;
      draw(run);
      col = run.end;
    }
}

} // namespace mha::render
