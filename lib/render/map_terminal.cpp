#include <mha/render/map_terminal.hpp>

#include <mha/render/numbers.hpp>

#include <fmt/core.h>
#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

namespace mha::render {

namespace {

constexpr std::size_t columns_between = 2; ///< columns between panels
constexpr std::size_t most_letters = 6;    ///< of a token below its column
constexpr std::array<std::string_view, 5> shades{" ", "░", "▒", "▓", "█"};

bool has_colors(const Look& look) {
  return look.depth != Depth::none;
}

/// Letters of a token, one column each; empty if it has others, or too many.
std::vector<std::string> letters_of(const std::string& label) {
  const std::string text = visible(label);
  std::vector<std::string> letters;
  for (std::size_t i = 0; i < text.size();) {
    const auto length = static_cast<std::size_t>(
        std::max<int>(utf8proc_utf8class[static_cast<unsigned char>(text[i])], 1));
    letters.push_back(text.substr(i, length));
    if (display_width(letters.back()) != 1) return {};
    i += length;
  }
  return letters.size() <= most_letters ? letters : std::vector<std::string>{};
}

/// Lines that the tokens of an axis take below each other; 0 where they cannot be written so.
std::size_t stack_height(const MapAxis& axis) {
  std::size_t height = 0;
  for (const std::string& label : axis.labels) {
    const std::size_t letters = letters_of(label).size();
    if (letters == 0 && !label.empty()) return 0;
    height = std::max(height, letters);
  }
  return height;
}

/// What stands before a line: its one or two tokens, or now and then a position.
std::string line_label(const MapAxis& axis, std::size_t line, std::size_t tokens_a_line) {
  const std::size_t first = line * tokens_a_line,
                    last = std::min(first + tokens_a_line, axis.positions.size());
  if (axis.labels.empty() || tokens_a_line > 2) {
    const bool shown = tokens_a_line == 1 || line % 4 == 0;
    return shown ? std::to_string(axis.positions[first]) : std::string();
  }
  std::string label;
  for (std::size_t i = first; i < last; ++i) {
    if (i > first) label += ' ';
    label += shortened(visible(axis.labels[i]), tokens_a_line == 1 ? 12 : 6);
  }
  return label;
}

std::vector<std::string> line_labels(const MapAxis& axis, std::size_t tokens_a_line) {
  std::vector<std::string> labels;
  const std::size_t lines = (axis.positions.size() + tokens_a_line - 1) / tokens_a_line;
  for (std::size_t line = 0; line < lines; ++line)
    labels.push_back(line_label(axis, line, tokens_a_line));
  return labels;
}

std::size_t widest(const std::vector<std::string>& texts) {
  std::size_t width = 0;
  for (const std::string& text : texts) width = std::max(width, display_width(text));
  return width;
}

std::size_t quotient_up(std::size_t a, std::size_t b) {
  return (a + b - 1) / b;
}

} // namespace

MapText fit_text(const MapTextNeeds& needs, const Look& look) {
  const std::size_t rows = std::max<std::size_t>(needs.rows.positions.size(), 1),
                    cols = std::max<std::size_t>(needs.cols.positions.size(), 1);
  constexpr std::size_t no_limit = 1 << 20;
  // Headline, a panel's title, positions of keys, the prompt, the legend.
  const std::size_t around = 4 + (look.width < 76 ? 4 : 2);
  const std::size_t height =
      look.height == 0 ? no_limit : std::max<std::size_t>(look.height, around + 4) - around;
  const std::size_t border = has_colors(look) ? 0 : 2, stack = stack_height(needs.cols);
  const auto room = [&](std::size_t tokens_a_line) {
    const std::size_t labels = widest(line_labels(needs.rows, tokens_a_line)) + 1;
    return look.width > labels + 8 ? look.width - labels : 8;
  };
  const auto across = [&](std::size_t columns, std::size_t width) {
    return std::clamp<std::size_t>((columns + columns_between) / (width + border + columns_between),
                                   1, needs.columns);
  };
  const auto with_stack = [&](MapText text, std::size_t lines) {
    text.stacked = stack > 0 && text.cols == cols && lines + stack - 1 <= height;
    return text;
  };

  const std::size_t wide = across(room(1), 2 * cols);
  if (2 * cols + border <= room(1) && rows <= height &&
      (wide >= std::min<std::size_t>(needs.columns, 2) || rows <= 12))
    return with_stack({true, false, wide, rows, cols, false}, rows);

  // A column is half as wide as a line is high: one key by two lots of queries.
  const std::size_t whole = room(2) - border, half = (room(2) - columns_between) / 2 - border;
  const bool beside = needs.columns > 1 && room(2) >= 44 && (cols <= half || cols > whole);
  std::size_t down = quotient_up(rows, 2 * height),
              along = quotient_up(cols, beside ? half : whole);
  if (rows < 2 * cols && cols < 2 * rows)
    down = along = std::max(down, along); // square stays square
  MapText text;
  text.wide = false, text.halves = has_colors(look);
  text.cols = quotient_up(cols, along);
  text.rows = quotient_up(rows, text.halves ? down : 2 * down);
  text.across = across(room(2 * down), text.cols);
  return with_stack(text, quotient_up(rows, 2 * down));
}

namespace {

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
  TextMaps(const MapPicture& picture, const MapText& text, const Look& look)
      : p_(picture), text_(text), look_(look) {}

  std::string run() {
    out_ = look_.bold(shortened(visible(p_.title), look_.width)) + "\n";
    // Panels of one row of the grid stay together, `across` of them beside each other.
    for (std::size_t row = 0; row < p_.panels.size(); row += p_.columns) {
      const std::size_t end = std::min(row + p_.columns, p_.panels.size());
      for (std::size_t first = row; first < end; first += text_.across)
        strip(first, std::min(first + text_.across, end));
    }
    legend();
    return out_;
  }

private:
  void strip(std::size_t first, std::size_t last);
  /// "L1 B0 H3", above panels that are narrower than their title.
  std::string short_title(const MapPanel& panel) const {
    std::string title;
    if (p_.several_layers && !panel.layer.empty()) title += fmt::format("L{} ", panel.layer);
    if (p_.several_batches) title += fmt::format("B{} ", panel.map.batch);
    return title + fmt::format("H{}", panel.map.head);
  }
  void cells(const MapPanel& panel, const MapStyle& style, std::size_t line);
  void colored(const MapPanel& panel, const MapStyle& style, std::size_t line);
  std::vector<std::string> key_lines(const MapAxis& axis) const;
  void legend();
  std::optional<Rgb> color(const MapPanel& panel, const MapStyle& style, std::size_t row,
                           std::size_t col) const;
  std::size_t lines_of(const MapPanel& panel) const {
    return text_.halves ? quotient_up(panel.map.rows, 2) : panel.map.rows;
  }
  std::size_t width_of(const MapPanel& panel) const {
    return panel.map.cols * (text_.wide ? 2 : 1) + 2 * border();
  }
  std::size_t border() const { return has_colors(look_) ? 0 : 1; }

  const MapPicture& p_;
  const MapText& text_;
  const Look& look_;
  std::string out_;
};

std::optional<Rgb> TextMaps::color(const MapPanel& panel, const MapStyle& style, std::size_t row,
                                   std::size_t col) const {
  if (row >= panel.map.rows || panel.map.is_masked(row, col)) return std::nullopt;
  const double value = panel.map.value(row, col);
  return std::isnan(value) ? nan_color : style.color(value);
}

void TextMaps::colored(const MapPanel& panel, const MapStyle& style, std::size_t line) {
  Pen pen(look_.depth, out_);
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
  if (has_colors(look_)) {
    colored(panel, style, line);
    return;
  }
  out_ += "│";
  for (std::size_t col = 0; col < panel.map.cols; ++col) {
    const double place = style.place(panel.map.value(line, col));
    const bool masked = panel.map.is_masked(line, col);
    std::string_view sign = "?";
    if (masked)
      sign = "·";
    else if (!std::isnan(place))
      sign = shades[std::min(static_cast<std::size_t>(place * shades.size()), shades.size() - 1)];
    out_ += sign;
    if (text_.wide) out_ += masked ? std::string_view(" ") : sign;
  }
  out_ += "│";
}

/// Below the cells: letters of tokens, or positions where they start.
std::vector<std::string> TextMaps::key_lines(const MapAxis& axis) const {
  const std::size_t cell = text_.wide ? 2 : 1, cells = axis.cells();
  const std::string indent(border(), ' ');
  if (text_.stacked && axis.factor == 1 && !axis.labels.empty()) {
    std::vector<std::string> lines(stack_height(axis), indent);
    for (const std::string& label : axis.labels) {
      const std::vector<std::string> letters = letters_of(label);
      for (std::size_t i = 0; i < lines.size(); ++i) {
        lines[i] += i < letters.size() ? letters[i] : " ";
        lines[i].append(cell - 1, ' ');
      }
    }
    return lines;
  }
  const std::size_t digits =
      axis.positions.empty() ? 1 : std::to_string(axis.positions.back()).size();
  const std::size_t step = round_step(quotient_up(digits + 2, cell));
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

void TextMaps::strip(std::size_t first, std::size_t last) {
  std::size_t lines = 0;
  const MapAxis& rows = p_.panels[first].rows;
  const std::vector<std::string> labels = line_labels(rows, rows.factor * (text_.halves ? 2 : 1));
  const std::size_t indent = widest(labels) + 1;
  out_ += std::string(indent, ' ');
  for (std::size_t i = first; i < last; ++i) {
    const MapPanel& panel = p_.panels[i];
    lines = std::max(lines, lines_of(panel));
    const std::size_t width = width_of(panel);
    std::string title = panel_title(p_, panel);
    if (last - first > 1 && display_width(title) + border() > width) title = short_title(panel);
    if (p_.styles.size() > 1) title += " · " + range_text(p_.style(i));
    title.insert(0, border(), ' ');
    if (last - first > 1) title = shortened(title, width);
    out_ += i + 1 < last ? pad_right(title, width + columns_between) : title;
  }
  out_ += '\n';
  for (std::size_t line = 0; line < lines; ++line) {
    out_ += pad_left(line < labels.size() ? labels[line] : std::string(), indent - 1) + ' ';
    for (std::size_t i = first; i < last; ++i) {
      const MapPanel& panel = p_.panels[i];
      if (line < lines_of(panel))
        cells(panel, p_.style(i), line);
      else
        out_.append(width_of(panel), ' ');
      if (i + 1 < last) out_.append(columns_between, ' ');
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
      text += pad_right(line < own.size() ? own[line] : std::string(),
                        width_of(p_.panels[i]) + columns_between);
    }
    out_ += text.substr(0, text.find_last_not_of(' ') + 1) + "\n";
  }
}

void TextMaps::legend() {
  const MapStyle& style = p_.styles[0];
  const bool own = p_.styles.size() > 1;
  std::string bar;
  if (has_colors(look_)) {
    Pen pen(look_.depth, bar);
    constexpr std::size_t width = 24;
    for (std::size_t i = 0; i < width; ++i) {
      pen.use(std::nullopt, style.color(style.value_at((static_cast<double>(i) + 0.5) / width)));
      bar += ' ';
    }
  } else {
    bar = "[";
    for (std::string_view shade : shades) bar += fmt::format("{0}{0}{0}", shade);
    bar += "]";
  }
  std::vector<std::string> parts;
  parts.push_back(fmt::format("{} {} {}", own ? "each head's smallest" : rounded(style.low, 3), bar,
                              own ? "largest" : rounded(style.high, 3)));
  if (style.scale == ColorScale::log) parts.emplace_back("log scale");
  if (p_.has_masked()) parts.emplace_back("· masked");
  if (p_.has_nan() && !has_colors(look_)) parts.emplace_back("? NaN");
  const MapPanel& panel = p_.panels[0];
  parts.push_back(fmt::format("down: {}, across: {}", panel.rows.name, panel.cols.name));
  if (const std::string pooling = pooling_text(p_, panel.rows.factor, panel.cols.factor);
      !pooling.empty())
    parts.push_back(pooling);
  std::string line;
  for (const std::string& part : parts) {
    if (line.empty() || display_width(line) + 3 + display_width(part) <= look_.width) {
      line += (line.empty() ? "" : "   ") + part;
      continue;
    }
    out_ += line + "\n";
    line = part;
  }
  // Only the last part, words alone, can be wider than the window.
  for (const std::string& piece :
       display_width(line) > look_.width ? wrapped(line, look_.width) : std::vector{line})
    out_ += piece + "\n";
}

} // namespace

std::string map_text(const MapPicture& picture, const MapText& text, const Look& look) {
  return TextMaps(picture, text, look).run();
}

} // namespace mha::render
