#pragma once
// Numbers of heads as a picture: one cell per head, layers downwards; or one cell per pair of
// heads.

#include <mha/render/map.hpp>
#include <mha/render/map_terminal.hpp>

namespace mha::render {

/// One side of a grid: layers, heads.
struct GridAxis {
  std::string name;                ///< "layer"
  std::vector<std::string> labels; ///< of its rows or columns
  bool tokens = false;             ///< labels are tokens; else ticks may leave some numbers out
  /// Shorter labels for where there is no room for all.
  std::vector<std::pair<std::size_t, std::string>> marks = {};
};

/// A panel of rows × columns numbers; NaN is a missing one.
MapPanel panel_of(std::string title, const GridAxis& rows, const GridAxis& cols,
                  std::vector<double> values);

/// A head and its number, for grids of layers × heads.
struct GridHead {
  std::string layer;
  std::size_t head = 0;
  std::optional<double> value;
};
/// Layers in the order of the heads given, heads ascending.
MapPanel grid_of(std::string title, const std::vector<GridHead>& heads);

/// Options of the picture of some panels.
struct GridLook {
  std::string none = "none"; ///< what a cell without a number is
  std::size_t columns = 0;   ///< panels side by side; 0: all
  MapColors colors;        ///< default: viridis from 0 where no number is negative, else diverging
  FigureStyle figure = {}; ///< of PNG, SVG and PDF
  CellRange others = {};   ///< the numbers of other pictures that share the colours
};

/// The numbers of some panels, for pictures that share their colours.
CellRange range_of(const std::vector<MapPanel>& panels);

/// The picture of some panels, which share their colours. As text, cells are pooled to what fits
/// the window.
std::string grid_text(const std::string& title, const std::vector<MapPanel>& panels,
                      const GridLook& how, const TextStyle& text_style);
std::string grid_png(const std::string& title, const std::vector<MapPanel>& panels,
                     const GridLook& how);
std::string grid_svg(const std::string& title, const std::vector<MapPanel>& panels,
                     const GridLook& how);
std::string grid_pdf(const std::string& title, const std::vector<MapPanel>& panels,
                     const GridLook& how);

} // namespace mha::render
