#pragma once
// Attention maps as pictures and as text: the contents of a picture, and its colours.

#include <mha/observe/pool.hpp>
#include <mha/render/colormap.hpp>
#include <mha/render/text.hpp>

#include <algorithm>
#include <optional>

namespace mha::render {

/// One side of a map: the tokens of its cells.
struct MapAxis {
  std::string name;                   ///< "query", "key"
  std::vector<std::size_t> positions; ///< of the tokens, in the picture's order
  std::vector<std::string> labels;    ///< of the positions, or empty
  std::size_t factor = 1;             ///< tokens that a cell covers
  /// Names of places, where numbers would mean nothing: "layer 3" at its first head.
  std::vector<std::pair<std::size_t, std::string>> marks = {};

  std::size_t cells() const { return (positions.size() + factor - 1) / factor; }
  bool operator==(const MapAxis&) const = default;
};

/// One map of the picture.
struct MapPanel {
  std::string layer; ///< "" where the layer has no number
  PooledMap map;     ///< rows and columns in drawing order: keys × queries in `columns`
  MapAxis rows, cols;
  std::string title = {}; ///< written above it instead of its layer and head; "": none
};

/// The axes of a layer's map in drawing order, one token per cell: keys × queries in `columns`.
struct MapAxes {
  MapAxis rows, cols;
};
MapAxes axes_of(const Layer& layer, Stage stage, const Selection& selection);
/// The pooled maps of a layer with their axes; `pool` was made with the same selection.
std::vector<MapPanel> make_panels(const Layer& layer, const std::string& layer_id, Stage stage,
                                  const Selection& selection, const Pool& pool);

enum class ColorScale : std::uint8_t { linear, log };

/// From numbers to colours.
struct MapStyle {
  const ColorMap* colors = nullptr;
  ColorScale scale = ColorScale::linear;
  double low = 0, high = 1; ///< the numbers at the ends of the colour bar

  /// A number's place on the colour bar: 0 is `low`, 1 is `high`.
  double share_of(double value) const;
  /// A number's place on the colour map: 0 … 1, clamped. NaN for NaN.
  double place(double value) const;
  /// The number at a place of the colour bar: 0 is `low`, 1 is `high`.
  double value_at(double share) const;
  Rgb color(double value) const { return colors->at(place(value)); }
};

/// The colours that options set; what they leave open follows from the numbers.
struct MapColors {
  std::string map;                 ///< "" = viridis, or diverging for stages with signs
  std::optional<ColorScale> scale; ///< none: by `is_long`, where the numbers allow it
  std::optional<double> low, high;
  bool is_long = false; ///< is_long_map() of the maps
};
/// Beyond this many queries or keys most weights are small: a linear scale of them is nearly black.
inline constexpr std::size_t longest_linear_map = 128;
/// Whether `weights` and `exp` of so many queries and keys have a log scale by default, also on
/// pages.
inline bool is_long_map(std::size_t queries, std::size_t keys) {
  return std::max(queries, keys) > longest_linear_map;
}
/// The default pooling of several numbers into a cell: the largest of weights, so that thin lines
/// stay visible; the mean of stages with signs.
Pooling default_pooling(Stage stage);

/// Smallest and largest number among cells, not counting masked ones and what is not finite.
struct CellRange {
  double low = 0, high = 0, least_positive = 0;
  bool any = false;
  void add(const PooledMap& map);
};

/// The colours for the numbers of a stage. Throws Error for low ≥ high, for an end that leaves all
/// numbers one colour, and for a log scale where there is nothing above zero, or something below.
MapStyle style_for(Stage stage, const MapColors& colors, const CellRange& range);
/// Whether a stage is drawn around zero by default: scores, scaled, capped, biased, masked.
bool is_signed(Stage stage);

/// The size of a figure, and whether it has numbers.
struct FigureStyle {
  double zoom = 1;                  ///< of everything: twice as many pixels, or as large a page
  std::optional<std::size_t> width; ///< pixels before `zoom`: panels as large as fit into them
  bool annotate = false;            ///< every cell has its number on it
};

/// A picture: panels in rows, and how they are coloured.
struct MapPicture {
  std::string title; ///< "weights · data/induction layer 1"; "": the picture has none
  Stage stage = Stage::weights;
  Pooling pooling = Pooling::mean;
  std::vector<MapPanel> panels;
  std::vector<MapStyle> styles; ///< one for all panels, or one each (--per-head-range)
  std::size_t columns = 1;      ///< panels side by side
  bool several_layers = false, several_batches = false;
  bool batched = false;
  FigureStyle figure;            ///< of PNG, SVG and PDF
  std::string masked = "masked"; ///< what a cell without a number is

  const MapStyle& style(std::size_t panel) const { return styles[styles.size() == 1 ? 0 : panel]; }
  bool has_masked() const;
  bool has_nan() const;
  ///@{
  /// Whether numbers are beyond the end of their colours by a step of the colours or more, so that
  /// they look as if they were at it.
  bool has_below() const;
  bool has_above() const;
  ///@}
  std::size_t cells() const; ///< of all panels
};

/// The number of panels side by side. With several layers or batch items a row has the heads of one
/// layer; otherwise the rows are full and the grid is as near to a square as possible.
std::size_t grid_columns(std::size_t panels, std::size_t heads);

/// "head 3", "layer 1 head 3", "batch 0 head 3".
std::string panel_title(const MapPicture& picture, const MapPanel& panel);
/// "H3", "L1 H3", "B0 H3", above panels that are narrower than their title.
std::string short_title(const MapPicture& picture, const MapPanel& panel);
/// "−56.0": an end of the colours.
std::string end_text(double end);
/// "−56.0 to 56.0": the ends of a panel's own colours.
std::string range_text(const MapStyle& style);
/// "each cell: the mean of 32 queries × 32 keys"; "" where a cell is one number. `rows` and `cols`
/// are what a cell covers of a panel.
std::string pooling_text(const MapPicture& picture, std::size_t rows, std::size_t cols);
/// Round numbers from `low` to `high` for a colour bar, about `count`: decades on a log scale; the
/// two ends where they are too near each other for round numbers between them.
std::vector<double> ticks(const MapStyle& style, std::size_t count);
/// Ticks in the fewest decimals that distinguish them.
std::vector<std::string> tick_texts(const std::vector<double>& ticks, const MapStyle& style);
/// 1, 2, 5, 10, 20 …: the smallest that is `least` or more.
std::size_t round_step(std::size_t least);

/// The colours of masked cells and NaN.
inline constexpr Rgb masked_ground{0xec, 0xec, 0xec}, masked_line{0xc4, 0xc4, 0xc4},
    nan_color{0xff, 0x00, 0xff};

/// As PNG: bytes of the file. Throws Error for pictures above 100 million pixels, and for a zoom
/// that leaves cells less than a pixel.
std::string map_png(const MapPicture& picture);
/// As SVG: cells are rectangles; in a picture of more than most_vector_cells panels are embedded
/// pictures of one pixel per cell.
std::string map_svg(const MapPicture& picture);
/// As PDF of one page, 3/4 of a point a pixel: cells as in an SVG, text with its font.
std::string map_pdf(const MapPicture& picture);

/// The most cells of a picture, all panels together, that are rectangles of an SVG or a PDF.
inline constexpr std::size_t most_vector_cells = std::size_t{128} * 128;

} // namespace mha::render
