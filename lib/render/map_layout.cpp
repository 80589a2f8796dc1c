#include <mha/render/map_layout.hpp>

#include <mha/render/font.hpp>
#include <mha/render/label.hpp>
#include <mha/render/map_titles.hpp>
#include <mha/system/error.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace mha::render {

namespace {

constexpr double title_size = 15, name_size = 12, tick_size = 10;
constexpr double smallest_label = 8.5, largest_label = 11;
constexpr std::size_t margin = 14, tick_length = 4, bar_width = 14, panel_gap = 16;
constexpr std::size_t picture_width = 1120; ///< what the panels share
constexpr std::size_t widest_panel = 440;   ///< of several; a single map gets half as much again
constexpr std::size_t thinnest_panel = 24;
constexpr std::size_t longest_label = 14; ///< columns of a token
constexpr double title_line = 1.3; ///< of the letters' size: from one line of a title to the next
constexpr double most_pixels = 1e8;

double text_width(std::string_view text, double size) {
  return Font::instance().width(text, size);
}

std::size_t whole(double pixels) {
  return static_cast<std::size_t>(std::ceil(std::max(pixels, 0.0)));
}

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

  void measure() {
    for (const Tick& tick : list) longest = std::max(longest, text_width(tick.text, size));
  }
};

Ticks token_ticks(const MapAxis& axis, double cell) {
  Ticks ticks;
  ticks.tokens = true;
  ticks.size = std::clamp(cell - 1, smallest_label, largest_label);
  for (std::size_t i = 0; i < axis.labels.size(); ++i)
    ticks.list.push_back(
        {static_cast<double>(i) + 0.5, shortened(readable(axis.labels[i]), longest_label)});
  ticks.measure();
  return ticks;
}

/// `room`: pixels that a number takes along the axis.
Ticks number_ticks(const MapAxis& axis, double cell, double room) {
  Ticks ticks;
  const auto& positions = axis.positions;
  const auto factor = static_cast<double>(axis.factor);
  const std::size_t step = round_step(whole(std::max(1.0, room / cell * factor)));
  bool run = true;
  for (std::size_t i = 1; i < positions.size(); ++i)
    run = run && positions[i] == positions[i - 1] + 1;
  for (std::size_t i = 0; i < positions.size(); ++i) {
    const bool shown = run ? positions[i] % step == 0 : i % step == 0;
    if (!shown) continue;
    const double place = (static_cast<double>(i) + 0.5) / factor;
    ticks.list.push_back({place, std::to_string(positions[i])});
  }
  ticks.measure();
  return ticks;
}

Ticks ticks_of(const MapAxis& axis, double cell, bool rows) {
  if (!axis.labels.empty() && axis.factor == 1 && cell >= smallest_label + 0.5)
    return token_ticks(axis, cell);
  const std::string last = axis.positions.empty() ? "0" : std::to_string(axis.positions.back());
  return number_ticks(axis, cell, rows ? tick_size * 2.4 : text_width(last, tick_size) + 12);
}

class Layout {
public:
  explicit Layout(const MapPicture& picture) : p_(picture) {}

  MapLayout run() {
    measure();
    place_panels();
    place_names();
    place_bar();
    finish();
    return std::move(out_);
  }

private:
  void measure();
  void place_panels();
  void place_rows(const PanelMark& mark, const MapPanel& panel);
  void place_cols(const PanelMark& mark, const MapPanel& panel);
  void frame(std::size_t x, std::size_t y, std::size_t width, std::size_t height);
  void place_names();
  void place_bar();
  void finish();
  void text(double x, double y, std::string text, double size, Anchor anchor = Anchor::start,
            bool vertical = false, Rgb color = ink) {
    out_.texts.push_back({x, y, size, anchor, vertical, color, std::move(text)});
  }

  const MapPicture& p_;
  MapLayout out_;
  MapTitles titles_;
  std::size_t rows_ = 0, cols_ = 0; ///< the most cells of a panel
  std::size_t cell_width_ = 1, cell_height_ = 1, grid_rows_ = 1;
  bool shared_ = true;      ///< the axes of all panels are alike: labels stand outside only
  bool level_keys_ = false; ///< the labels below are written level
  std::size_t row_labels_ = 0, col_labels_ = 0; ///< pixels that labels take
  std::size_t left_ = 0, top_ = 0, step_x_ = 0, step_y_ = 0;
  std::size_t right_ = 0, bottom_ = 0; ///< of the panels
};

void Layout::measure() {
  bool labelled = false;
  for (const MapPanel& panel : p_.panels) {
    rows_ = std::max(rows_, panel.map.rows), cols_ = std::max(cols_, panel.map.cols);
    labelled = labelled || (!panel.rows.labels.empty() && panel.rows.factor == 1) ||
               (!panel.cols.labels.empty() && panel.cols.factor == 1);
    shared_ = shared_ && panel.rows == p_.panels[0].rows && panel.cols == p_.panels[0].cols;
  }
  const std::size_t longest = std::max<std::size_t>({rows_, cols_, 1});
  const bool single = p_.panels.size() == 1;
  const std::size_t room =
      std::min(picture_width / p_.columns, single ? widest_panel * 3 / 2 : widest_panel);
  std::size_t cell = std::clamp<std::size_t>(room / longest, 1, longest <= 8 ? 40 : 26);
  // A single map with tokens may be larger, so that each of them can be read.
  if (labelled && single && longest <= 128) cell = std::max<std::size_t>(cell, 11);
  const auto visible_cell = [&](std::size_t cells) {
    return std::max(cell, thinnest_panel / std::max<std::size_t>(cells, 1));
  };
  cell_width_ = visible_cell(cols_), cell_height_ = visible_cell(rows_);
  grid_rows_ = (p_.panels.size() + p_.columns - 1) / p_.columns;

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
  row_labels_ = whole(longest_row) + tick_length + 4;
  col_labels_ = (level_keys_ ? whole(Font::instance().ascent(tick_size)) : whole(longest_col)) +
                tick_length + 4;

  const std::size_t width = cols_ * cell_width_, height = rows_ * cell_height_;
  titles_ = fit_titles(p_, static_cast<double>(width));
  const std::size_t slot = std::max(width, whole(titles_.widest)), lines = titles_.lines[0].size();
  const std::size_t heading =
      whole(titles_.size * 1.6) + (lines - 1) * whole(titles_.size * title_line);
  step_x_ = slot + panel_gap + (shared_ ? 0 : row_labels_);
  step_y_ = height + heading + (shared_ ? panel_gap / 2 : col_labels_ + panel_gap / 2);
  left_ = margin + whole(name_size * 1.5) + row_labels_;
  top_ = margin + whole(title_size * 1.9) + heading;
  right_ = left_ + (p_.columns - 1) * step_x_ + slot;
  bottom_ = top_ + (grid_rows_ - 1) * step_y_ + height;
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
    const PanelMark mark{i, left_ + i % p_.columns * step_x_, top_ + i / p_.columns * step_y_,
                         cell_width_, cell_height_};
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
  const std::size_t used_columns = std::min(p_.columns, p_.panels.size());
  const std::size_t right = left_ + (used_columns - 1) * step_x_ + cols_ * cell_width_;
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
    const auto place = [&](double value) {
      if (style.scale == ColorScale::log)
        return std::log(value / style.low) / std::log(style.high / style.low);
      return (value - style.low) / (style.high - style.low);
    };
    for (std::size_t i = 0; i < list.size(); ++i) tick(place(list[i]), labels[i]);
  }
  std::size_t y = top_ + height + 14;
  const auto swatch = [&](const char* label) {
    const BoxMark box{x, y, bar_width, 12};
    frame(box.x, box.y, box.width, box.height);
    text(text_x, static_cast<double>(y) + 10, label, tick_size);
    widest = std::max(widest, text_width(label, tick_size));
    y += swatch_step;
    return box;
  };
  if (p_.has_masked()) out_.masked = swatch("masked");
  if (p_.has_nan()) out_.nan = swatch("NaN");
  out_.width = whole(text_x + widest) + margin;
  out_.height = std::max(y, bottom_ + col_labels_ + whole(name_size * 2));
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
  // A long title widens a small picture, up to a limit.
  std::string title = visible(p_.title);
  const std::size_t room = std::max<std::size_t>(out_.width, 560) - 2 * margin;
  for (std::size_t columns = display_width(title);
       columns > 8 && text_width(title, title_size) > static_cast<double>(room);)
    title = shortened(title, --columns);
  out_.width = std::max(out_.width, whole(text_width(title, title_size)) + 2 * margin);
  text(margin, margin + title_size, title, title_size);
}

} // namespace

MapLayout lay_out(const MapPicture& picture) {
  if (picture.panels.empty()) fail("a picture without a map");
  return Layout(picture).run();
}

std::size_t default_cells(std::size_t columns) {
  if (columns <= 1) return 1024;
  return std::clamp<std::size_t>(picture_width / columns, 64, widest_panel);
}

} // namespace mha::render
