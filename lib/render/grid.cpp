#include <mha/render/grid.hpp>

#include <algorithm>

namespace mha::render {

namespace {
constexpr std::size_t column_gap = 2, narrowest = 8;
}

std::string Grid::text(const TextStyle& look, std::size_t indent) const {
  std::vector<std::size_t> widths;
  bool titled = false;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    std::size_t width = display_width(columns_[c].title);
    titled |= width > 0;
    for (const std::vector<std::string>& row : rows_)
      width = std::max(width, display_width(row[c]));
    widths.push_back(width);
  }
  std::size_t total = indent + column_gap * (columns_.size() - 1);
  for (std::size_t width : widths) total += width;
  // What does not fit is taken from the widest of the columns that may shrink.
  while (total > look.width) {
    std::size_t widest = columns_.size();
    for (std::size_t c = 0; c < columns_.size(); ++c)
      if (columns_[c].shrinks && widths[c] > narrowest &&
          (widest == columns_.size() || widths[c] > widths[widest]))
        widest = c;
    if (widest == columns_.size()) break;
    --widths[widest], --total;
  }

  std::string out;
  const auto line = [&](const auto& cell) {
    std::string text(indent, ' ');
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      if (c > 0) text.append(column_gap, ' ');
      text += cell(c);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    out += text + '\n';
  };
  const auto aligned = [&](std::size_t c, std::string_view cell) {
    const std::string cut = shortened(cell, widths[c]);
    return columns_[c].right ? pad_left(cut, widths[c]) : pad_right(cut, widths[c]);
  };
  if (titled) line([&](std::size_t c) { return look.bold(aligned(c, columns_[c].title)); });
  for (const std::vector<std::string>& row : rows_) {
    std::vector<std::vector<std::string>> cells;
    std::size_t height = 1;
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      cells.push_back(columns_[c].wraps ? wrapped(row[c], widths[c]) : std::vector{row[c]});
      height = std::max(height, cells[c].size());
    }
    for (std::size_t i = 0; i < height; ++i)
      line([&](std::size_t c) {
        const std::string cell = aligned(c, i < cells[c].size() ? cells[c][i] : std::string());
        return columns_[c].dim ? look.dim(cell) : cell;
      });
  }
  return out;
}

} // namespace mha::render
