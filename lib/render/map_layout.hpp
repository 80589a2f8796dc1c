#pragma once
// Layout of a picture, in pixels: shared by PNG, SVG and PDF.

#include <mha/render/canvas.hpp>
#include <mha/render/map.hpp>

namespace mha::render {

struct TextMark {
  double x = 0, y = 0; ///< of the baseline
  double size = 0;
  Anchor anchor = Anchor::start;
  bool vertical = false; ///< runs upwards
  Rgb color;
  std::string text;
};

/// A horizontal or vertical line, one pixel wide, from (x, y).
struct LineMark {
  std::size_t x = 0, y = 0, length = 0;
  bool vertical = false;
};

/// A panel's cells, of some pixels each, in a frame one pixel outside of them. Cells are square but
/// where a single row, or column, would be too thin to see.
struct PanelMark {
  std::size_t panel = 0; ///< of the picture
  std::size_t x = 0, y = 0, cell_width = 1, cell_height = 1;
};

struct BoxMark {
  std::size_t x = 0, y = 0, width = 0, height = 0;
};

/// The box of a panel's cells.
inline BoxMark box_of(const PanelMark& mark, const MapPanel& panel) {
  return {mark.x, mark.y, panel.map.cols * mark.cell_width, panel.map.rows * mark.cell_height};
}

struct MapLayout {
  std::size_t width = 0, height = 0;
  std::vector<TextMark> texts;
  std::vector<LineMark> lines;
  std::vector<PanelMark> panels;
  BoxMark bar; ///< the colour bar: the largest number on top
  /// The bar's pointed ends, each line of pixels a box, where cells are beyond it.
  std::vector<BoxMark> above, below;
  std::optional<BoxMark> masked, nan;
};

inline constexpr Rgb ink{0x22, 0x22, 0x22}, faint_ink{0x66, 0x66, 0x66};

/// Puts positions, "#3", in the place of the labels of tokens that the font of PNG and PDF lacks
/// characters of. Returns the most tokens of one axis that were replaced.
std::size_t number_undrawn(MapPicture& picture);

/// Throws Error for a picture that would be too large.
MapLayout layout_of(const MapPicture& picture);

/// The default maximum of a panel's cells along a side, for so many panels side by side in a
/// picture of this width.
std::size_t default_cells(std::size_t columns, std::optional<std::size_t> width = {});

} // namespace mha::render
