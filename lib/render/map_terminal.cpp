#include <mha/render/map_terminal.hpp>

#include <mha/render/numbers.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <span>

namespace mha::render {

namespace {

constexpr std::array<std::string_view, 5> shades{" ", "░", "▒", "▓", "█"};
// For maps whose middle is zero: blank at zero, strokes below it, shades above it.
constexpr std::array<std::string_view, 7> signed_shades{"≡", "=", "-", " ", "░", "▒", "█"};

std::span<const std::string_view> shades_of(const MapStyle& style) {
  if (style.colors->diverging) return signed_shades;
  return shades;
}

/// The character of a number, without colours.
std::string_view sign_of(const MapStyle& style, double value) {
  const double place = style.place(value);
  if (std::isnan(place)) return "?";
  const std::span<const std::string_view> signs = shades_of(style);
  const auto at = static_cast<std::size_t>(place * static_cast<double>(signs.size()));
  return signs[std::min(at, signs.size() - 1)];
}

bool has_colors(const TextStyle& text_style) {
  return text_style.depth != Depth::none;
}

/// Colours of the terminal: escapes only where they change.
class Pen {
public:
  Pen(Depth depth, std::string& out) : depth_(depth), out_(out) {}
  ~Pen() { reset(); }
  Pen(const Pen&) = delete;
  Pen& operator=(const Pen&) = delete;

  void use(std::optional<Rgb> front, std::optional<Rgb> back) {
    if (dim_) reset();
    if (front == front_ && back == back_) return;
    if ((front_ && !front) || (back_ && !back)) reset();
    if (front && front != front_) set(38, *front);
    if (back && back != back_) set(48, *back);
    front_ = front, back_ = back;
  }
  void use_dim() {
    if (dim_) return;
    reset();
    out_ += "\x1b[2m";
    dim_ = true;
  }
  void reset() {
    if (front_ || back_ || dim_) out_ += "\x1b[0m";
    front_.reset(), back_.reset(), dim_ = false;
  }

private:
  void set(int what, Rgb color) {
    if (depth_ == Depth::truecolor)
      fmt::format_to(std::back_inserter(out_), "\x1b[{};2;{};{};{}m", what, color.red, color.green,
                     color.blue);
    else
      fmt::format_to(std::back_inserter(out_), "\x1b[{};5;{}m", what, terminal_color(color));
  }
  Depth depth_;
  std::string& out_;
  std::optional<Rgb> front_, back_;
  bool dim_ = false;
};

class TextMaps {
public:
  TextMaps(const MapPicture& picture, const MapText& text, const TextStyle& text_style)
      : p_(picture), text_(text), text_style_(text_style) {}

  std::string run() {
    if (!p_.title.empty())
      out_ = text_style_.bold(shortened(visible(p_.title), text_style_.width)) + "\n";
    // Panels of one row of the grid stay together, `across` of them side by side.
    for (std::size_t row = 0; row < p_.panels.size(); row += p_.columns) {
      const std::size_t end = std::min(row + p_.columns, p_.panels.size());
      for (std::size_t first = row, last = row; first < end; first = last) {
        // A strip has one list of labels at its left, so panels of another text begin the next
        // strip.
        while (last < end && last - first < text_.across &&
               p_.panels[last].rows == p_.panels[first].rows)
          ++last;
        strip(first, last);
      }
    }
    legend();
    return out_;
  }

private:
  void strip(std::size_t first, std::size_t last);
  void cells(const MapPanel& panel, const MapStyle& style, std::size_t line);
  void colored(const MapPanel& panel, const MapStyle& style, std::size_t line);
  std::vector<std::string> key_lines(const MapAxis& axis) const;
  void titles(std::size_t first, std::size_t last, std::size_t indent);
  std::string bar() const;
  std::string nan_sign() const;
  void legend();
  Rgb shown(const MapStyle& style, double value) const;
  std::optional<Rgb> color(const MapPanel& panel, const MapStyle& style, std::size_t row,
                           std::size_t col) const;
  std::size_t lines_of(const MapPanel& panel) const {
    return text_.halves ? (panel.map.rows + 1) / 2 : panel.map.rows;
  }
  std::size_t width_of(const MapPanel& panel) const {
    return panel.map.cols * (text_.wide ? 2 : 1) + 2 * border();
  }
  /// Columns that a panel takes beside others.
  std::size_t slot_of(std::size_t panel) const;
  std::size_t border() const { return has_colors(text_style_) ? 0 : 1; }

  const MapPicture& p_;
  const MapText& text_;
  const TextStyle& text_style_;
  std::string out_;
};

/// In 256 colours the map's own list: a nearest colour would not be ordered in lightness.
Rgb TextMaps::shown(const MapStyle& style, double value) const {
  if (text_style_.depth != Depth::palette) return style.color(value);
  return terminal_rgb(style.colors->terminal_at(style.place(value)));
}

std::optional<Rgb> TextMaps::color(const MapPanel& panel, const MapStyle& style, std::size_t row,
                                   std::size_t col) const {
  if (row >= panel.map.rows || panel.map.is_masked(row, col)) return std::nullopt;
  const double value = panel.map.value(row, col);
  return std::isnan(value) ? nan_color : shown(style, value);
}

void TextMaps::colored(const MapPanel& panel, const MapStyle& style, std::size_t line) {
  Pen pen(text_style_.depth, out_);
  for (std::size_t col = 0; col < panel.map.cols; ++col) {
    if (!text_.halves) {
      const std::optional<Rgb> cell = color(panel, style, line, col);
      if (cell)
        pen.use(std::nullopt, cell);
      else
        pen.use_dim();
      out_ += cell ? " " : "·";
      if (text_.wide) out_ += ' ';
      continue;
    }
    const std::optional<Rgb> upper = color(panel, style, 2 * line, col),
                             lower = color(panel, style, 2 * line + 1, col);
    if (!upper && !lower) {
      pen.use_dim();
      out_ += "·";
    } else if (!upper) {
      pen.use(lower, std::nullopt);
      out_ += "▄";
    } else {
      pen.use(upper, lower);
      out_ += "▀";
    }
  }
}

void TextMaps::cells(const MapPanel& panel, const MapStyle& style, std::size_t line) {
  if (has_colors(text_style_)) {
    colored(panel, style, line);
    return;
  }
  out_ += "│";
  for (std::size_t col = 0; col < panel.map.cols; ++col) {
    const bool masked = panel.map.is_masked(line, col);
    const std::string_view sign = masked ? "·" : sign_of(style, panel.map.value(line, col));
    out_ += sign;
    if (text_.wide) out_ += masked ? std::string_view(" ") : sign;
  }
  out_ += "│";
}

/// Below the cells: letters of tokens, or positions where they start.
std::vector<std::string> TextMaps::key_lines(const MapAxis& axis) const {
  if (!text_.positions) return {};
  const std::size_t cell = text_.wide ? 2 : 1, cells = axis.cells();
  const std::string indent(border(), ' ');
  if (text_.stacked && axis.factor == 1 && !axis.labels.empty()) {
    std::vector<std::string> lines(stack_height(axis, text_.wide), indent);
    for (const std::string& label : axis.labels) {
      const std::vector<std::string> letters = letters_of(label, text_.wide);
      for (std::size_t i = 0; i < lines.size(); ++i)
        lines[i] += pad_right(i < letters.size() ? letters[i] : "", cell);
    }
    return lines;
  }
  const std::size_t digits =
      axis.positions.empty() ? 1 : std::to_string(axis.positions.back()).size();
  const std::size_t step = round_step((digits + 1 + cell) / cell);
  std::string line = indent;
  for (std::size_t i = 0; i < cells; ++i) {
    const std::size_t at = border() + i * cell;
    if (i % step != 0 || line.size() > at) continue;
    line.append(at - line.size(), ' ');
    const std::string position = std::to_string(axis.positions[i * axis.factor]);
    if (at + position.size() <= cells * cell + 2 * border()) line += position;
  }
  return {line};
}

std::size_t TextMaps::slot_of(std::size_t panel) const {
  const MapPanel& one = p_.panels[panel];
  std::size_t title = display_width(short_title(p_, one));
  if (p_.styles.size() > 1)
    title = std::max(title, std::min(widest_range, display_width(range_text(p_.style(panel)))));
  return std::max(width_of(one), title + border());
}

/// The names of panels, and the ends of their own colours beside or below them.
void TextMaps::titles(std::size_t first, std::size_t last, std::size_t indent) {
  const bool several = last - first > 1;
  std::vector<std::string> names, ranges;
  bool beside = true;
  for (std::size_t i = first; i < last; ++i) {
    const MapPanel& panel = p_.panels[i];
    const std::size_t room =
        several ? slot_of(i) - border() : text_style_.width - indent - border();
    std::string name = panel_title(p_, panel);
    if (display_width(name) > room) name = short_title(p_, panel);
    const std::string range = p_.styles.size() > 1 ? range_text(p_.style(i)) : "";
    beside = beside && display_width(name + " · " + range) <= room;
    names.push_back(shortened(name, room));
    ranges.push_back(shortened(range, room));
  }
  const bool has_range = p_.styles.size() > 1;
  for (const bool lower : {false, true}) {
    if (lower && (beside || !has_range)) break;
    std::string line(indent, ' ');
    for (std::size_t i = 0; i < names.size(); ++i) {
      std::string text(border(), ' ');
      text += lower ? ranges[i] : has_range && beside ? names[i] + " · " + ranges[i] : names[i];
      line += i + 1 < names.size() ? pad_right(text, slot_of(first + i) + map_gap) : text;
    }
    out_ += line + '\n';
  }
}

void TextMaps::strip(std::size_t first, std::size_t last) {
  std::size_t lines = 0;
  const MapAxis& rows = p_.panels[first].rows;
  const std::vector<std::string> labels = line_labels(rows, rows.factor * (text_.halves ? 2 : 1));
  const std::size_t indent = widest(labels) + 1;
  titles(first, last, indent);
  for (std::size_t i = first; i < last; ++i) lines = std::max(lines, lines_of(p_.panels[i]));
  for (std::size_t line = 0; line < lines; ++line) {
    out_ += pad_left(line < labels.size() ? labels[line] : std::string(), indent - 1) + ' ';
    for (std::size_t i = first; i < last; ++i) {
      const MapPanel& panel = p_.panels[i];
      std::size_t used = 0;
      if (line < lines_of(panel)) cells(panel, p_.style(i), line), used = width_of(panel);
      if (i + 1 < last) out_.append(slot_of(i) - used + map_gap, ' ');
    }
    out_ += '\n';
  }
  std::vector<std::vector<std::string>> below;
  std::size_t height = 0;
  for (std::size_t i = first; i < last; ++i) {
    below.push_back(key_lines(p_.panels[i].cols));
    height = std::max(height, below.back().size());
  }
  for (std::size_t line = 0; line < height; ++line) {
    std::string text(indent, ' ');
    for (std::size_t i = first; i < last; ++i) {
      const auto& own = below[i - first];
      text += pad_right(line < own.size() ? own[line] : std::string(), slot_of(i) + map_gap);
    }
    out_ += text.substr(0, text.find_last_not_of(' ') + 1) + "\n";
  }
}

/// "0 ▒▒▒ ≥ 0.99": colours, or shades, between the numbers that they begin and end with, and
/// whether cells are beyond these.
std::string TextMaps::bar() const {
  const MapStyle& style = p_.styles[0];
  const bool own = p_.styles.size() > 1;
  std::string low = own ? "each head's smallest" : rounded(style.low, 3),
              high = own ? "largest" : rounded(style.high, 3);
  if (p_.has_below()) low = own ? low + " and below" : "≤ " + low;
  if (p_.has_above()) high = own ? high + " and above" : "≥ " + high;
  const std::size_t words = display_width(low) + display_width(high) + 2;
  std::string cells;
  if (has_colors(text_style_)) {
    Pen pen(text_style_.depth, cells);
    const std::size_t width =
        std::min<std::size_t>(24, text_style_.width > words + 5 ? text_style_.width - words : 5);
    for (std::size_t i = 0; i < width; ++i) {
      const double share = (static_cast<double>(i) + 0.5) / static_cast<double>(width);
      pen.use(std::nullopt, shown(style, style.value_at(share)));
      cells += ' ';
    }
  } else {
    const std::size_t signs = shades_of(style).size(),
                      width = text_style_.width >= words + 2 + 3 * signs ? 3 * signs : signs;
    cells = "[";
    for (std::size_t i = 0; i < width; ++i)
      cells += sign_of(style,
                       style.value_at((static_cast<double>(i) + 0.5) / static_cast<double>(width)));
    cells += "]";
  }
  return fmt::format("{} {} {}", low, cells, high);
}

/// The look of a cell that is NaN.
std::string TextMaps::nan_sign() const {
  if (!has_colors(text_style_)) return "?";
  std::string cells;
  Pen pen(text_style_.depth, cells);
  pen.use(std::nullopt, nan_color);
  cells += "  ";
  pen.reset();
  return cells;
}

void TextMaps::legend() {
  std::vector<std::string> parts{bar()};
  if (p_.styles[0].scale == ColorScale::log) parts.emplace_back("log scale");
  if (p_.has_masked()) parts.push_back("· " + p_.masked);
  if (p_.has_nan()) parts.push_back(nan_sign() + " NaN");
  const MapPanel& panel = p_.panels[0];
  parts.push_back(fmt::format("down: {}, across: {}", panel.rows.name, panel.cols.name));
  if (const std::string pooling = pooling_text(p_, panel.rows.factor, panel.cols.factor);
      !pooling.empty())
    parts.push_back(pooling);
  std::string line;
  for (const std::string& part : parts) {
    if (line.empty() || display_width(line) + 3 + display_width(part) <= text_style_.width) {
      line += (line.empty() ? "" : "   ") + part;
      continue;
    }
    out_ += line + "\n";
    line = part;
  }
  // Only the last part, words alone, can be wider than the window.
  for (const std::string& piece : display_width(line) > text_style_.width
                                      ? wrapped(line, text_style_.width)
                                      : std::vector{line})
    out_ += piece + "\n";
}

} // namespace

std::string map_text(const MapPicture& picture, const MapText& text, const TextStyle& text_style) {
  return TextMaps(picture, text, text_style).run();
}

} // namespace mha::render
