#include <mha/render/map_layout.hpp>

#include <mha/render/font.hpp>
#include <mha/render/map_texts.hpp>
#include <mha/render/painter.hpp>
#include <mha/system/error.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace mha::render {

namespace {

// Sizes in pixels; of text the em square.
constexpr double title_size = 15, axis_name_size = 12;
constexpr std::size_t margin = 14, tick_length = 4, bar_width = 14, panel_gap = 16;
constexpr std::size_t picture_width = 1120; ///< of all panels side by side
constexpr std::size_t widest_panel = 440;   ///< in a grid; a single map gets half as much again
constexpr std::size_t small_panel = 320;    ///< the size of a map of few cells
constexpr std::size_t largest_cell = 160;
constexpr std::size_t thinnest_panel = 24;
constexpr double title_line = 1.3;         ///< distance of a title's lines, in em squares
constexpr double most_pixels = 1e8;        ///< of a picture: width × height
constexpr std::size_t most_annotated = 64; ///< cells along a side of a map with numbers

/// A column or a row of panels: pixels along its axis.
struct GridTrack {
  std::size_t begin = 0, size = 0;
};

/// Places the marks of one picture, from its panels outwards.
class Layout {
public:
  /// `cell`: pixels of a cell's side, by default as many as the picture has room for. `gap`: pixels
  /// between panels, beyond panel_gap.
  explicit Layout(const MapPicture& picture, std::optional<std::size_t> cell = {},
                  std::size_t gap = 0)
      : picture_(picture), cell_(cell), gap_(panel_gap + gap) {}

  MapLayout run() {
    measure();
    place_panels();
    place_names();
    place_bar();
    if (picture_.figure.annotate) place_numbers();
    finish();
    return std::move(layout_);
  }

private:
  void measure();
  void measure_margins(double longest_row, double longest_col);
  void measure_grid();
  std::size_t cell_size(bool labelled) const;
  void place_panels();
  void place_rows(const PanelMark& mark, const MapPanel& panel);
  void place_cols(const PanelMark& mark, const MapPanel& panel);
  void frame(std::size_t x, std::size_t y, std::size_t width, std::size_t height);
  void place_names();
  void place_bar();
  std::vector<BoxMark> pointed_end(bool up);
  void place_numbers();
  void finish();
  void text(double x, double y, std::string text, double size, Anchor anchor = Anchor::start,
            bool vertical = false, Rgb color = ink) {
    layout_.texts.push_back({x, y, size, anchor, vertical, color, std::move(text)});
  }

  const MapPicture& picture_;
  std::optional<std::size_t> cell_;
  std::size_t gap_;
  MapLayout layout_;
  MapTitles titles_;
  std::size_t rows_ = 0, cols_ = 0; ///< the most cells of a panel
  std::size_t cell_width_ = 1, cell_height_ = 1;
  bool shared_axes_ = true;      ///< all panels have the same axes: labels at the outer panels only
  bool horizontal_cols_ = false; ///< the labels of columns run horizontally
  std::size_t row_labels_ = 0, col_labels_ = 0; ///< pixels beside and below a panel, for labels
  /// The begin and the size of each column and each row of panels.
  std::vector<GridTrack> across_, down_;
  std::size_t left_ = 0, top_ = 0, right_ = 0, bottom_ = 0; ///< of the panels
};

/// Pixels of a cell's side in a picture without --width.
std::size_t Layout::cell_size(bool labelled) const {
  const std::size_t longest = std::max<std::size_t>({rows_, cols_, 1});
  const bool single = picture_.panels.size() == 1;
  const std::size_t room =
      std::min(picture_width / picture_.columns, single ? widest_panel * 3 / 2 : widest_panel);
  // Cells of a small map grow, so that its picture is not tiny.
  const std::size_t most = std::clamp<std::size_t>(small_panel / longest, 26, largest_cell);
  std::size_t cell = std::clamp<std::size_t>(room / longest, 1, most);
  // A single map with tokens may be larger, so that each of them can be read.
  if (labelled && single && longest <= 128) cell = std::max<std::size_t>(cell, 11);
  if (picture_.figure.annotate) cell = std::max(cell, CellNumbers(picture_).side());
  return cell;
}

void Layout::measure() {
  bool labelled = false;
  for (const MapPanel& panel : picture_.panels) {
    rows_ = std::max(rows_, panel.map.rows), cols_ = std::max(cols_, panel.map.cols);
    labelled = labelled || (!panel.rows.labels.empty() && panel.rows.factor == 1) ||
               (!panel.cols.labels.empty() && panel.cols.factor == 1);
    shared_axes_ = shared_axes_ && panel.rows == picture_.panels[0].rows &&
                   panel.cols == picture_.panels[0].cols;
  }
  const std::size_t cell = cell_.value_or(cell_size(labelled));
  const auto visible_cell = [&](std::size_t cells) {
    return std::max(cell, thinnest_panel / std::max<std::size_t>(cells, 1));
  };
  cell_width_ = visible_cell(cols_), cell_height_ = visible_cell(rows_);
  measure_grid();

  horizontal_cols_ = true;
  double longest_row = 0, longest_col = 0;
  for (std::size_t i = 0; i < picture_.panels.size(); ++i) {
    const auto width = static_cast<double>(cell_width_);
    const Ticks rows = ticks_of(picture_.panels[i].rows, static_cast<double>(cell_height_), true),
                cols = ticks_of(picture_.panels[i].cols, width, false);
    longest_row = std::max(longest_row, rows.longest);
    longest_col = std::max(longest_col, cols.longest);
    horizontal_cols_ = horizontal_cols_ && (!cols.tokens || cols.longest + 4 <= width);
    if (shared_axes_) break;
  }
  measure_margins(longest_row, longest_col);
}

/// The sizes of columns and rows of panels: short texts take no more room than they need.
void Layout::measure_grid() {
  across_.resize(std::min(picture_.columns, picture_.panels.size()));
  down_.resize((picture_.panels.size() + picture_.columns - 1) / picture_.columns);
  for (std::size_t i = 0; i < picture_.panels.size(); ++i) {
    std::size_t &width = across_[i % picture_.columns].size,
                &height = down_[i / picture_.columns].size;
    width = std::max(width, picture_.panels[i].map.cols * cell_width_);
    height = std::max(height, picture_.panels[i].map.rows * cell_height_);
  }
}

/// The place of the first panel beside its labels, and the distances of the others. Throws Error
/// for a picture that would be too large.
void Layout::measure_margins(double longest_row, double longest_col) {
  row_labels_ = whole(longest_row) + tick_length + 4;
  col_labels_ =
      (horizontal_cols_ ? whole(Font::instance().ascent(tick_size)) : whole(longest_col)) +
      tick_length + 4;

  titles_ = fit_titles(picture_, static_cast<double>(cols_ * cell_width_));
  const std::size_t title = whole(titles_.widest), lines = titles_.lines[0].size();
  const std::size_t heading =
      whole(titles_.size * 1.6) + (lines - 1) * whole(titles_.size * title_line);
  const std::size_t between_x = gap_ + (shared_axes_ ? 0 : row_labels_),
                    between_y = heading + (shared_axes_ ? 0 : col_labels_) + panel_gap / 2;
  left_ = margin + whole(axis_name_size * 1.5) + row_labels_;
  top_ = margin + (picture_.title.empty() ? 0 : whole(title_size * 1.9)) + heading;
  right_ = left_, bottom_ = top_;
  for (GridTrack& column : across_) {
    column.begin = right_ + (&column == &across_[0] ? 0 : between_x);
    right_ = column.begin + std::max(column.size, title);
  }
  for (GridTrack& row : down_) {
    row.begin = bottom_ + (&row == &down_[0] ? 0 : between_y);
    bottom_ = row.begin + row.size;
  }
  if (static_cast<double>(right_) * static_cast<double>(bottom_) > most_pixels &&
      picture_.figure.width)
    fail("<width> {}: the picture would be {} pixels high; give less", *picture_.figure.width,
         bottom_);
  if (static_cast<double>(right_) * static_cast<double>(bottom_) > most_pixels)
    fail(
        "a picture of {} panels of {} × {} cells would have {} × {} pixels; choose heads, or fewer "
        "<cells>",
        picture_.panels.size(), rows_, cols_, right_, bottom_);
}

void Layout::frame(std::size_t x, std::size_t y, std::size_t width, std::size_t height) {
  layout_.lines.push_back({x - 1, y - 1, width + 2, false});
  layout_.lines.push_back({x - 1, y + height, width + 2, false});
  layout_.lines.push_back({x - 1, y - 1, height + 2, true});
  layout_.lines.push_back({x + width, y - 1, height + 2, true});
}

void Layout::place_rows(const PanelMark& mark, const MapPanel& panel) {
  const auto cell = static_cast<double>(mark.cell_height);
  const Ticks ticks = ticks_of(panel.rows, cell, true);
  for (const Tick& tick : ticks.list) {
    const double middle = static_cast<double>(mark.y) + tick.cell * cell;
    layout_.lines.push_back(
        {mark.x - 1 - tick_length, static_cast<std::size_t>(middle), tick_length, false});
    text(static_cast<double>(mark.x - 1 - tick_length) - 3, std::floor(middle) + ticks.size * 0.37,
         tick.text, ticks.size, Anchor::end);
  }
}

void Layout::place_cols(const PanelMark& mark, const MapPanel& panel) {
  const auto cell = static_cast<double>(mark.cell_width);
  const Ticks ticks = ticks_of(panel.cols, cell, false);
  const std::size_t below = mark.y + panel.map.rows * mark.cell_height + 1;
  for (const Tick& tick : ticks.list) {
    const double middle = static_cast<double>(mark.x) + tick.cell * cell;
    layout_.lines.push_back({static_cast<std::size_t>(middle), below, tick_length, true});
    const auto end = static_cast<double>(below + tick_length);
    if (horizontal_cols_ || !ticks.tokens)
      text(middle, end + ticks.size, tick.text, ticks.size, Anchor::middle);
    else
      text(std::floor(middle) + ticks.size * 0.37, end + 3, tick.text, ticks.size, Anchor::end,
           true);
  }
}

void Layout::place_panels() {
  for (std::size_t i = 0; i < picture_.panels.size(); ++i) {
    const MapPanel& panel = picture_.panels[i];
    const PanelMark mark{i, across_[i % picture_.columns].begin, down_[i / picture_.columns].begin,
                         cell_width_, cell_height_};
    layout_.panels.push_back(mark);
    frame(mark.x, mark.y, panel.map.cols * cell_width_, panel.map.rows * cell_height_);
    double baseline = static_cast<double>(mark.y) - titles_.size * 0.5;
    for (auto line = titles_.lines[i].rbegin(); line != titles_.lines[i].rend(); ++line) {
      text(static_cast<double>(mark.x), baseline, *line, titles_.size);
      baseline -= std::ceil(titles_.size * title_line);
    }
    if (!shared_axes_ || i % picture_.columns == 0) place_rows(mark, panel);
    if (!shared_axes_ || i + picture_.columns >= picture_.panels.size()) place_cols(mark, panel);
  }
}

void Layout::place_names() {
  const MapPanel& panel = picture_.panels[0];
  const std::size_t right = across_.back().begin + across_.back().size;
  text(margin + axis_name_size * 0.8, static_cast<double>(top_ + bottom_) / 2, panel.rows.name,
       axis_name_size, Anchor::middle, true);
  const double below = static_cast<double>(bottom_ + col_labels_) + axis_name_size * 1.4;
  text(static_cast<double>(left_ + right) / 2, below, panel.cols.name, axis_name_size,
       Anchor::middle);
}

/// Beyond the frame of the bar, each line two pixels shorter than the one before, with an outline.
std::vector<BoxMark> Layout::pointed_end(bool up) {
  const BoxMark& bar = layout_.bar;
  std::vector<BoxMark> lines;
  for (std::size_t i = 1; i <= bar.width / 2; ++i) {
    const std::size_t y = up ? bar.y - 1 - i : bar.y + bar.height + i;
    if (2 * i < bar.width) lines.push_back({bar.x + i, y, bar.width - 2 * i, 1});
    layout_.lines.push_back({bar.x + i - 1, y, 1, false});
    layout_.lines.push_back({bar.x + bar.width - i, y, 1, false});
  }
  return lines;
}

void Layout::place_bar() {
  const std::size_t x = right_ + 22;
  std::size_t swatches = 0;
  if (picture_.has_masked()) ++swatches;
  if (picture_.has_nan()) ++swatches;
  constexpr std::size_t swatch_step = 20;
  const std::size_t space = bottom_ - top_, below = swatches * swatch_step + (swatches > 0 ? 6 : 0);
  // As high as the panels, up to a limit.
  const std::size_t height = std::clamp<std::size_t>(space > below ? space - below : 0, 48, 480);
  layout_.bar = {x, top_, bar_width, height};
  frame(x, top_, bar_width, height);
  if (picture_.has_above()) layout_.above = pointed_end(true);
  if (picture_.has_below()) layout_.below = pointed_end(false);

  double widest = 0;
  const double text_x = static_cast<double>(x + bar_width + tick_length) + 5;
  for (const auto& [place, label] : bar_ticks(picture_, height)) {
    const double y = static_cast<double>(top_) + (1 - place) * static_cast<double>(height - 1);
    layout_.lines.push_back(
        {x + bar_width + 1, static_cast<std::size_t>(std::lround(y)), tick_length, false});
    text(text_x, std::round(y) + tick_size * 0.37, label, tick_size);
    widest = std::max(widest, text_width(label, tick_size));
  }
  std::size_t y = top_ + height + 14;
  const auto swatch = [&](const std::string& label) {
    const BoxMark box{x, y, bar_width, 12};
    frame(box.x, box.y, box.width, box.height);
    text(text_x, static_cast<double>(y) + 10, label, tick_size);
    widest = std::max(widest, text_width(label, tick_size));
    y += swatch_step;
    return box;
  };
  if (picture_.has_masked()) layout_.masked = swatch(picture_.masked);
  if (picture_.has_nan()) layout_.nan = swatch("NaN");
  layout_.width = whole(text_x + widest) + margin;
  layout_.height = std::max(y, bottom_ + col_labels_ + whole(axis_name_size * 2));
}

void Layout::place_numbers() {
  const CellNumbers numbers(picture_);
  for (const PanelMark& mark : layout_.panels) {
    const MapPanel& panel = picture_.panels[mark.panel];
    for (std::size_t row = 0; row < panel.map.rows; ++row)
      for (std::size_t col = 0; col < panel.map.cols; ++col) {
        if (panel.map.is_masked(row, col)) continue;
        const double x = static_cast<double>(mark.x) +
                         (static_cast<double>(col) + 0.5) * static_cast<double>(mark.cell_width),
                     y = static_cast<double>(mark.y) +
                         (static_cast<double>(row) + 0.5) * static_cast<double>(mark.cell_height);
        text(x, std::floor(y) + tick_size * 0.37, numbers.text(panel.map.value(row, col)),
             tick_size, Anchor::middle, false,
             ink_on(cell_color(panel, picture_.style(mark.panel), row, col)));
      }
  }
}

void Layout::finish() {
  std::size_t widest_rows = 1, widest_cols = 1;
  for (const MapPanel& panel : picture_.panels) {
    widest_rows = std::max(widest_rows, panel.rows.factor);
    widest_cols = std::max(widest_cols, panel.cols.factor);
  }
  const std::string caption = pooling_text(picture_, widest_rows, widest_cols);
  if (!caption.empty()) {
    text(margin, static_cast<double>(layout_.height) + tick_size, caption, tick_size, Anchor::start,
         false, faint_ink);
    layout_.height += whole(tick_size * 1.6);
    layout_.width = std::max(layout_.width, whole(text_width(caption, tick_size)) + 2 * margin);
  }
  layout_.height += margin / 2;
  if (picture_.title.empty()) return;
  // A long title widens a small picture, up to a limit.
  std::string title = visible(picture_.title);
  const std::size_t most =
                        picture_.figure.width.value_or(std::max<std::size_t>(layout_.width, 560)),
                    room = most > 3 * margin ? most - 2 * margin : margin;
  for (std::size_t columns = display_width(title);
       columns > 8 && text_width(title, title_size) > static_cast<double>(room);)
    title = shortened(title, --columns);
  layout_.width = std::max(layout_.width, whole(text_width(title, title_size)) + 2 * margin);
  text(margin, margin + title_size, title, title_size);
}

std::size_t most_cells_across(const MapPicture& picture) {
  std::size_t most = 1;
  for (const MapPanel& panel : picture.panels) most = std::max(most, panel.map.cols);
  return most;
}

/// The picture with the largest cells that is not wider than `width`, made exactly as wide.
MapLayout fitted(const MapPicture& picture, std::size_t width) {
  const std::size_t least = picture.figure.annotate ? CellNumbers(picture).side() : 1;
  std::size_t low = least, high = std::max(width, least);
  MapLayout narrowest = Layout(picture, least).run();
  if (narrowest.width > width)
    fail(
        "<width> {}: {} beside each other with cells of {} need {}; give more, choose heads, or {}",
        width, counted(picture.columns, "panels"), counted(least, "pixels"), narrowest.width,
        picture.figure.annotate ? message("leave out <annotate>") : message("fewer <cells>"));
  MapLayout best = std::move(narrowest);
  while (low + 1 < high) {
    const std::size_t middle = low + (high - low) / 2;
    // A layout that is far too wide throws, so cells that do not fit even without margins are
    // skipped.
    MapLayout tried;
    const bool fits = middle * most_cells_across(picture) <= width &&
                      (tried = Layout(picture, middle).run()).width <= width;
    (fits ? low : high) = middle;
    if (fits) best = std::move(tried);
  }
  // The pixels that are left go between the panels.
  if (picture.columns > 1) {
    MapLayout spaced = Layout(picture, low, (width - best.width) / (picture.columns - 1)).run();
    if (spaced.width <= width) best = std::move(spaced);
  }
  best.width = width;
  return best;
}

} // namespace

MapLayout layout_of(const MapPicture& picture) {
  if (picture.panels.empty()) fail("a picture without a map");
  if (picture.figure.annotate)
    for (const MapPanel& panel : picture.panels)
      if (panel.map.rows > most_annotated || panel.map.cols > most_annotated)
        fail("<annotate>: {} × {} cells, at most {} × {} have numbers that can be read; choose "
             "with <query> and <key>",
             panel.map.rows, panel.map.cols, most_annotated, most_annotated);
  if (picture.figure.width) return fitted(picture, *picture.figure.width);
  return Layout(picture).run();
}

std::size_t default_cells(std::size_t columns, std::optional<std::size_t> width) {
  if (width) { // a cell has at least one pixel, and labels and the colour bar need room
    constexpr std::size_t around = 220;
    const std::size_t room = *width > around ? *width - around : 0;
    return std::clamp<std::size_t>(room / columns > panel_gap ? room / columns - panel_gap : 0, 16,
                                   1024);
  }
  if (columns <= 1) return 1024;
  return std::clamp<std::size_t>(picture_width / columns, 64, widest_panel);
}

} // namespace mha::render
