// The size of maps in characters, so that they fit a window.

#include <mha/render/map_terminal.hpp>

#include <algorithm>
#include <optional>
#include <vector>

namespace mha::render {

namespace {

constexpr std::size_t no_limit = 1 << 20;
/// The least columns and lines of one of many panels, and the columns where not even these fit.
constexpr std::size_t least_columns = 8, least_lines = 3, scrolled_columns = 12;

std::size_t quotient_up(std::size_t a, std::size_t b) {
  return (a + b - 1) / b;
}

class Fit {
public:
  Fit(const MapTextNeeds& needs, const TextStyle& text_style)
      : needs_(needs),
        text_style_(text_style),
        rows_(std::max<std::size_t>(needs.rows.positions.size(), 1)),
        cols_(std::max<std::size_t>(needs.cols.positions.size(), 1)),
        colors_(text_style.depth != Depth::none),
        border_(colors_ ? 0 : 2),
        narrow_stack_(stack_height(needs.cols, false)),
        wide_stack_(stack_height(needs.cols, true)) {
    // Headline, a panel's title, positions of keys, the prompt, the legend.
    around_ = 4 + (text_style.width < 76 ? 4 : 2);
    height_ = text_style.height == 0
                  ? no_limit
                  : std::max<std::size_t>(text_style.height, around_ + 4) - around_;
  }

  MapText run() const {
    const MapText text = most_detailed();
    if (needs_.panels == 1 || text_style_.height == 0 || lines_of_all(text) <= text_style_.height)
      return text;
    return smaller(text);
  }

private:
  /// Columns beside the labels of lines.
  std::size_t room(std::size_t tokens_a_line) const {
    const std::size_t labels = widest(line_labels(needs_.rows, tokens_a_line)) + 1;
    return text_style_.width > labels + 8 ? text_style_.width - labels : 8;
  }
  std::size_t across(std::size_t columns, std::size_t width) const {
    const std::size_t panel = std::max(width + border_, needs_.title + border_ / 2);
    return std::clamp<std::size_t>((columns + map_gap) / (panel + map_gap), 1, needs_.columns);
  }
  MapText with_stack(MapText text, std::size_t lines) const {
    const std::size_t stack = stack_of(text);
    text.stacked = stack > 0 && text.cols == cols_ && lines + stack - 1 <= height_;
    return text;
  }
  std::size_t stack_of(const MapText& text) const {
    return text.wide ? wide_stack_ : narrow_stack_;
  }
  std::size_t lines_of(const MapText& text) const {
    return text.halves ? quotient_up(text.rows, 2) : text.rows;
  }
  std::size_t strips(std::size_t beside) const {
    return quotient_up(needs_.panels, needs_.columns) * quotient_up(needs_.columns, beside);
  }
  /// Lines of the whole picture: each strip has a title and its tokens or positions below.
  std::size_t lines_of_all(const MapText& text) const {
    const std::size_t strip = lines_of(text) + 1 + (text.stacked ? stack_of(text) : text.positions);
    return strips(text.across) * strip + around_ - 2;
  }
  MapText most_detailed() const;
  /// One cell per column, in panels of at most so many columns and lines.
  MapText narrow(std::size_t columns, std::size_t lines) const;
  MapText smaller(const MapText& text) const;

  const MapTextNeeds& needs_;
  const TextStyle& text_style_;
  std::size_t rows_, cols_; ///< tokens
  bool colors_;
  std::size_t border_, narrow_stack_, wide_stack_, around_ = 0, height_ = 0;
};

MapText Fit::narrow(std::size_t columns, std::size_t lines) const {
  // A column is half as wide as a line is high, so a cell covers twice as many queries as keys.
  std::size_t down = quotient_up(rows_, 2 * lines), along = quotient_up(cols_, columns);
  if (rows_ < 2 * cols_ && cols_ < 2 * rows_)
    down = along = std::max(down, along); // square stays square
  MapText text;
  text.wide = false, text.halves = colors_;
  text.cols = quotient_up(cols_, along);
  text.rows = quotient_up(rows_, text.halves ? down : 2 * down);
  text.across = across(room(2 * down), text.cols);
  return with_stack(text, quotient_up(rows_, 2 * down));
}

MapText Fit::most_detailed() const {
  const std::size_t wide = across(room(1), 2 * cols_);
  if (2 * cols_ + border_ <= room(1) && rows_ <= height_ &&
      (wide >= std::min<std::size_t>(needs_.columns, 2) || rows_ <= 12))
    return with_stack({true, false, wide, rows_, cols_, false}, rows_);

  const std::size_t whole = room(2) - border_, half = (room(2) - map_gap) / 2 - border_;
  const bool beside = needs_.columns > 1 && room(2) >= 44 && (cols_ <= half || cols_ > whole);
  return narrow(beside ? half : whole, height_);
}

/// The largest panels that all fit the window together; if none do, small ones.
MapText Fit::smaller(const MapText& text) const {
  const std::size_t labels = room(8); // positions alone: a line has many tokens
  const auto columns_of = [&](std::size_t beside) {
    const std::size_t slot = (labels + map_gap) / beside;
    return slot > map_gap + border_ ? slot - map_gap - border_ : 0;
  };
  const std::size_t free = text_style_.height > around_ ? text_style_.height - (around_ - 2) : 0;
  MapText scrolled = text;
  std::optional<MapText> best;
  for (std::size_t beside = 1; beside <= needs_.columns; ++beside) {
    const std::size_t columns = columns_of(beside), lines = free / strips(beside);
    if (columns < least_columns) break;
    if (columns >= scrolled_columns && beside > text.across)
      scrolled = narrow(columns, std::min(height_, columns / 2));
    for (const bool positions : {true, false}) {
      const std::size_t around = positions ? 2 : 1;
      if (lines < least_lines + around) continue;
      std::vector<MapText> candidates{narrow(columns, lines - around)};
      // Characters have no halves: one line per query is higher than wide, but shows every number.
      if (!colors_ && cols_ <= columns && rows_ <= lines - around)
        for (const bool stacked : {true, false}) {
          MapText exact{.wide = false, .rows = rows_, .cols = cols_};
          exact.across = across(room(1), cols_);
          candidates.push_back(stacked ? with_stack(exact, rows_) : exact);
        }
      for (MapText& candidate : candidates) {
        candidate.positions = positions;
        if (lines_of_all(candidate) <= text_style_.height &&
            (!best || candidate.rows * candidate.cols > best->rows * best->cols))
          best = candidate;
      }
    }
  }
  return best.value_or(scrolled);
}

} // namespace

MapText fit_text(const MapTextNeeds& needs, const TextStyle& text_style) {
  return Fit(needs, text_style).run();
}

} // namespace mha::render
