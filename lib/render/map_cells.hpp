#pragma once
// Cells of a panel as drawings of shapes have them: runs of one colour in a row.

#include <mha/render/map.hpp>

#include <cmath>

namespace mha::render {

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
/// that they enlarge, whatever the file says; fewer where there are many cells.
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
