#include <mha/render/map_layout.hpp>

#include <mha/render/font.hpp>
#include <mha/render/map_cells.hpp>
#include <mha/render/map_numbers.hpp>
#include <mha/render/map_ticks.hpp>
#include <mha/render/map_titles.hpp>
#include <mha/system/error.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace mha::render {

namespace {

constexpr double title_size = 15, name_size = 12;
constexpr std::size_t margin = 14, tick_length = 4, bar_width = 14, panel_gap = 16;
constexpr std::size_t picture_width = 1120; ///< what the panels share
constexpr std::size_t widest_panel = 440;   ///< of several; a single map gets half as much again
constexpr std::size_t small_panel = 320;    ///< what a map of few cells grows to
constexpr std::size_t largest_cell = 160;
constexpr std::size_t thinnest_panel = 24;
constexpr double title_line = 1.3; ///< of the letters' size: from one line of a title to the next
constexpr double most_pixels = 1e8;
constexpr std::size_t most_annotated = 64; ///< cells along a side

/// A column or a row of panels: pixels along its axis.
struct GridTrack {
  std::size_t begin = 0, size = 0;
};

class Layout {
public:
  /// `cell`: pixels of a cell's side; none: as the picture has room for.
  /// `gap`: pixels more between panels.
  explicit Layout(const MapPicture& picture, std::optional<std::size_t> cell = {},
                  std::size_t gap = 0)
      : p_(picture), cell_(cell), gap_(panel_gap + gap) {}

  MapLayout run() {
    measure();
    place_panels();
    place_names();
    place_bar();
    if (p_.figure.annotate) place_numbers();
    finish();
    return std::move(out_);
  }

private:
  void measure();
  void find_room(double longest_row, double longest_col);
  void measure_grid();
  std::size_t cell_size(bool labelled) const;
  void place_panels();
  void place_rows(const PanelMark& mark, const MapPanel& panel);
  void place_cols(const PanelMark& mark, const MapPanel& panel);
  void frame(std::size_t x, std::size_t y, std::size_t width, std::size_t height);
  void place_names();
  void place_bar();
  void place_numbers();
  void finish();
  void text(double x, double y, std::string text, double size, Anchor anchor = Anchor::start,
            bool vertical = false, Rgb color = ink) {
    out_.texts.push_back({x, y, size, anchor, vertical, color, std::move(text)});
  }

  const MapPicture& p_;
  std::optional<std::size_t> cell_;
  std::size_t gap_;
  MapLayout out_;
  MapTitles titles_;
  std::size_t rows_ = 0, cols_ = 0; ///< the most cells of a panel
  std::size_t cell_width_ = 1, cell_height_ = 1;
  bool shared_ = true;      ///< the axes of all panels are alike: labels stand outside only
  bool level_keys_ = false; ///< the labels below are written level
  std::size_t row_labels_ = 0, col_labels_ = 0; ///< pixels that labels take
  /// Of each column of panels and of each row: where it begins, and how far its largest panel goes.
  std::vector<GridTrack> across_, down_;
  std::size_t left_ = 0, top_ = 0, right_ = 0, bottom_ = 0; ///< of the panels
};

/// The side of a cell, where nothing says how wide the picture is.
std::size_t Layout::cell_size(bool labelled) const {
  const std::size_t longest = std::max<std::size_t>({rows_, cols_, 1});
  const bool single = p_.panels.size() == 1;
  const std::size_t room =
      std::min(picture_width / p_.columns, single ? widest_panel * 3 / 2 : widest_panel);
  // Few cells are large, so that the picture of a small layer is no stamp.
  const std::size_t most = std::clamp<std::size_t>(small_panel / longest, 26, largest_cell);
  std::size_t cell = std::clamp<std::size_t>(room / longest, 1, most);
  // A single map with tokens may be larger, so that each of them can be read.
  if (labelled && single && longest <= 128) cell = std::max<std::size_t>(cell, 11);
  if (p_.figure.annotate) cell = std::max(cell, CellNumbers(p_).side());
  return cell;
}

void Layout::measure() {
  bool labelled = false;
  for (const MapPanel& panel : p_.panels) {
    rows_ = std::max(rows_, panel.map.rows), cols_ = std::max(cols_, panel.map.cols);
    labelled = labelled || (!panel.rows.labels.empty() && panel.rows.factor == 1) ||
               (!panel.cols.labels.empty() && panel.cols.factor == 1);
    shared_ = shared_ && panel.rows == p_.panels[0].rows && panel.cols == p_.panels[0].cols;
  }
  const std::size_t cell = cell_.value_or(cell_size(labelled));
  const auto visible_cell = [&](std::size_t cells) {
    return std::max(cell, thinnest_panel / std::max<std::size_t>(cells, 1));
  };
  cell_width_ = visible_cell(cols_), cell_height_ = visible_cell(rows_);
  measure_grid();

  level_keys_ = true;
  double longest_row = 0, longest_col = 0;
  for (std::size_t i = 0; i < p_.panels.size(); ++i) {
    const auto width = static_cast<double>(cell_width_);
    const Ticks rows = ticks_of(p_.panels[i].rows, static_cast<double>(cell_height_), true),
                cols = ticks_of(p_.panels[i].cols, width, false);
    longest_row = std::max(longest_row, rows.longest);
    longest_col = std::max(longest_col, cols.longest);
    level_keys_ = level_keys_ && (!cols.tokens || cols.longest + 4 <= width);
    if (shared_) break;
  }
  find_room(longest_row, longest_col);
}

/// The sizes of columns and rows of panels: short texts take no more room than they need.
void Layout::measure_grid() {
  across_.resize(std::min(p_.columns, p_.panels.size()));
  down_.resize((p_.panels.size() + p_.columns - 1) / p_.columns);
  for (std::size_t i = 0; i < p_.panels.size(); ++i) {
    std::size_t &width = across_[i % p_.columns].size, &height = down_[i / p_.columns].size;
    width = std::max(width, p_.panels[i].map.cols * cell_width_);
    height = std::max(height, p_.panels[i].map.rows * cell_height_);
  }
}

/// Where the panels stand, beside their labels.
void Layout::find_room(double longest_row, double longest_col) {
  row_labels_ = whole(longest_row) + tick_length + 4;
  col_labels_ = (level_keys_ ? whole(Font::instance().ascent(tick_size)) : whole(longest_col)) +
                tick_length + 4;

  titles_ = fit_titles(p_, static_cast<double>(cols_ * cell_width_));
  const std::size_t title = whole(titles_.widest), lines = titles_.lines[0].size();
  const std::size_t heading =
      whole(titles_.size * 1.6) + (lines - 1) * whole(titles_.size * title_line);
  const std::size_t between_x = gap_ + (shared_ ? 0 : row_labels_),
                    between_y = heading + (shared_ ? 0 : col_labels_) + panel_gap / 2;
  left_ = margin + whole(name_size * 1.5) + row_labels_;
  top_ = margin + (p_.title.empty() ? 0 : whole(title_size * 1.9)) + heading;
  right_ = left_, bottom_ = top_;
  for (GridTrack& column : across_) {
    column.begin = right_ + (&column == &across_[0] ? 0 : between_x);
    right_ = column.begin + std::max(column.size, title);
  }
  for (GridTrack& row : down_) {
    row.begin = bottom_ + (&row == &down_[0] ? 0 : between_y);
    bottom_ = row.begin + row.size;
  }
  if (static_cast<double>(right_) * static_cast<double>(bottom_) > most_pixels && p_.figure.width)
    fail("--width {}: the picture would be {} pixels high; give less", *p_.figure.width, bottom_);
  if (static_cast<double>(right_) * static_cast<double>(bottom_) > most_pixels)
    fail(
        "a picture of {} panels of {} × {} cells would have {} × {} pixels; choose heads, or fewer "
        "--cells",
        p_.panels.size(), rows_, cols_, right_, bottom_);
}

void Layout::frame(std::size_t x, std::size_t y, std::size_t width, std::size_t height) {
  out_.lines.push_back({x - 1, y - 1, width + 2, false});
  out_.lines.push_back({x - 1, y + height, width + 2, false});
  out_.lines.push_back({x - 1, y - 1, height + 2, true});
  out_.lines.push_back({x + width, y - 1, height + 2, true});
}

void Layout::place_rows(const PanelMark& mark, const MapPanel& panel) {
  const auto cell = static_cast<double>(mark.cell_height);
  const Ticks ticks = ticks_of(panel.rows, cell, true);
  for (const Tick& tick : ticks.list) {
    const double middle = static_cast<double>(mark.y) + tick.cell * cell;
    out_.lines.push_back(
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
    out_.lines.push_back({static_cast<std::size_t>(middle), below, tick_length, true});
    const auto end = static_cast<double>(below + tick_length);
    if (level_keys_ || !ticks.tokens)
      text(middle, end + ticks.size, tick.text, ticks.size, Anchor::middle);
    else
      text(std::floor(middle) + ticks.size * 0.37, end + 3, tick.text, ticks.size, Anchor::end,
           true);
  }
}

void Layout::place_panels() {
  for (std::size_t i = 0; i < p_.panels.size(); ++i) {
    const MapPanel& panel = p_.panels[i];
    const PanelMark mark{i, across_[i % p_.columns].begin, down_[i / p_.columns].begin, cell_width_,
                         cell_height_};
    out_.panels.push_back(mark);
    frame(mark.x, mark.y, panel.map.cols * cell_width_, panel.map.rows * cell_height_);
    double baseline = static_cast<double>(mark.y) - titles_.size * 0.5;
    for (auto line = titles_.lines[i].rbegin(); line != titles_.lines[i].rend(); ++line) {
      text(static_cast<double>(mark.x), baseline, *line, titles_.size);
      baseline -= std::ceil(titles_.size * title_line);
    }
    if (!shared_ || i % p_.columns == 0) place_rows(mark, panel);
    if (!shared_ || i + p_.columns >= p_.panels.size()) place_cols(mark, panel);
  }
}

void Layout::place_names() {
  const MapPanel& panel = p_.panels[0];
  const std::size_t right = across_.back().begin + across_.back().size;
  text(margin + name_size * 0.8, static_cast<double>(top_ + bottom_) / 2, panel.rows.name,
       name_size, Anchor::middle, true);
  const double below = static_cast<double>(bottom_ + col_labels_) + name_size * 1.4;
  text(static_cast<double>(left_ + right) / 2, below, panel.cols.name, name_size, Anchor::middle);
}

void Layout::place_bar() {
  const std::size_t x = right_ + 22;
  std::size_t swatches = 0;
  if (p_.has_masked()) ++swatches;
  if (p_.has_nan()) ++swatches;
  constexpr std::size_t swatch_step = 20;
  const std::size_t space = bottom_ - top_, below = swatches * swatch_step + (swatches > 0 ? 6 : 0);
  // As high as the panels, but not a tower beside many of them.
  const std::size_t height = std::clamp<std::size_t>(space > below ? space - below : 0, 48, 480);
  out_.bar = {x, top_, bar_width, height};
  frame(x, top_, bar_width, height);

  double widest = 0;
  const double text_x = static_cast<double>(x + bar_width + tick_length) + 5;
  const auto tick = [&](double place, const std::string& label) {
    const double y = static_cast<double>(top_) + (1 - place) * static_cast<double>(height - 1);
    out_.lines.push_back(
        {x + bar_width + 1, static_cast<std::size_t>(std::lround(y)), tick_length, false});
    text(text_x, std::round(y) + tick_size * 0.37, label, tick_size);
    widest = std::max(widest, text_width(label, tick_size));
  };
  if (p_.styles.size() > 1) {
    tick(1, "each head's\u00a0largest");
    tick(0, "smallest");
  } else {
    const MapStyle& style = p_.styles[0];
    const std::vector<double> list = ticks(style, std::clamp<std::size_t>(height / 28, 3, 8));
    const std::vector<std::string> labels = tick_texts(list, style);
    // The bar goes from the lowest number to the highest, also where the colours are symmetric.
    for (std::size_t i = 0; i < list.size(); ++i) tick(style.share_of(list[i]), labels[i]);
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
  if (p_.has_masked()) out_.masked = swatch(p_.masked);
  if (p_.has_nan()) out_.nan = swatch("NaN");
  out_.width = whole(text_x + widest) + margin;
  out_.height = std::max(y, bottom_ + col_labels_ + whole(name_size * 2));
}

void Layout::place_numbers() {
  const CellNumbers numbers(p_);
  for (const PanelMark& mark : out_.panels) {
    const MapPanel& panel = p_.panels[mark.panel];
    for (std::size_t row = 0; row < panel.map.rows; ++row)
      for (std::size_t col = 0; col < panel.map.cols; ++col) {
        if (panel.map.is_masked(row, col)) continue;
        const double x = static_cast<double>(mark.x) +
                         (static_cast<double>(col) + 0.5) * static_cast<double>(mark.cell_width),
                     y = static_cast<double>(mark.y) +
                         (static_cast<double>(row) + 0.5) * static_cast<double>(mark.cell_height);
        text(x, std::floor(y) + tick_size * 0.37, numbers.text(panel.map.value(row, col)),
             tick_size, Anchor::middle, false,
             ink_on(cell_color(panel, p_.style(mark.panel), row, col)));
      }
  }
}

void Layout::finish() {
  std::size_t widest_rows = 1, widest_cols = 1;
  for (const MapPanel& panel : p_.panels) {
    widest_rows = std::max(widest_rows, panel.rows.factor);
    widest_cols = std::max(widest_cols, panel.cols.factor);
  }
  const std::string caption = pooling_text(p_, widest_rows, widest_cols);
  if (!caption.empty()) {
    text(margin, static_cast<double>(out_.height) + tick_size, caption, tick_size, Anchor::start,
         false, faint_ink);
    out_.height += whole(tick_size * 1.6);
    out_.width = std::max(out_.width, whole(text_width(caption, tick_size)) + 2 * margin);
  }
  out_.height += margin / 2;
  if (p_.title.empty()) return;
  // A long title widens a small picture, up to a limit.
  std::string title = visible(p_.title);
  const std::size_t most = p_.figure.width.value_or(std::max<std::size_t>(out_.width, 560)),
                    room = most > 3 * margin ? most - 2 * margin : margin;
  for (std::size_t columns = display_width(title);
       columns > 8 && text_width(title, title_size) > static_cast<double>(room);)
    title = shortened(title, --columns);
  out_.width = std::max(out_.width, whole(text_width(title, title_size)) + 2 * margin);
  text(margin, margin + title_size, title, title_size);
}

std::size_t most_cells_across(const MapPicture& picture) {
  std::size_t most = 1;
  for (const MapPanel& panel : picture.panels) most = std::max(most, panel.map.cols);
  return most;
}

/// The largest cells whose picture is not wider than asked for.
MapLayout fitted(const MapPicture& picture, std::size_t width) {
  const std::size_t least = picture.figure.annotate ? CellNumbers(picture).side() : 1;
  std::optional<MapLayout> best;
  std::size_t low = least, high = std::max(width, least);
  MapLayout narrowest = Layout(picture, least).run();
  if (narrowest.width > width)
    fail("--width {}: {} panel{} beside each other with cells of {} pixel{} need {}; give more, "
         "choose heads, or {}",
         width, picture.columns, picture.columns == 1 ? "" : "s", least, least == 1 ? "" : "s",
         narrowest.width, picture.figure.annotate ? "leave out --annotate" : "fewer --cells");
  best = std::move(narrowest);
  while (low + 1 < high) {
    const std::size_t middle = low + (high - low) / 2;
    // What is far too large is not laid out: a picture has a limit.
    MapLayout tried;
    const bool fits = middle * most_cells_across(picture) <= width &&
                      (tried = Layout(picture, middle).run()).width <= width;
    (fits ? low : high) = middle;
    if (fits) best = std::move(tried);
  }
  // What is left parts the panels.
  if (picture.columns > 1) {
    MapLayout parted = Layout(picture, low, (width - best->width) / (picture.columns - 1)).run();
    if (parted.width <= width) best = std::move(parted);
  }
  best->width = width;
  return std::move(*best);
}

} // namespace

MapLayout lay_out(const MapPicture& picture) {
  if (picture.panels.empty()) fail("a picture without a map");
  if (picture.figure.annotate)
    for (const MapPanel& panel : picture.panels)
      if (panel.map.rows > most_annotated || panel.map.cols > most_annotated)
        fail("--annotate: {} × {} cells, at most {} × {} have numbers that can be read; choose "
             "with --query and --key",
             panel.map.rows, panel.map.cols, most_annotated, most_annotated);
  if (picture.figure.width) return fitted(picture, *picture.figure.width);
  return Layout(picture).run();
}

std::size_t default_cells(std::size_t columns, std::optional<std::size_t> width) {
  if (width) { // a cell has a pixel at least, beside labels and the colour bar
    constexpr std::size_t around = 220;
    const std::size_t room = *width > around ? *width - around : 0;
    return std::clamp<std::size_t>(room / columns > panel_gap ? room / columns - panel_gap : 0, 16,
                                   1024);
  }
  if (columns <= 1) return 1024;
  return std::clamp<std::size_t>(picture_width / columns, 64, widest_panel);
}

} // namespace mha::render
