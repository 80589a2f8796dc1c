#include "render/grid.hpp"

#include <algorithm>

namespace mha::render {

namespace {
constexpr std::size_t gap = 2, narrowest = 8;
}

std::string Grid::text(const Look& look, std::size_t indent) const {
  std::vector<std::size_t> widths;
  bool titled = false;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    std::size_t width = display_width(columns_[c].title);
    titled |= width > 0;
    for (const std::vector<std::string>& row : rows_)
      width = std::max(width, display_width(row[c]));
    widths.push_back(width);
  }
  std::size_t total = indent + gap * (columns_.size() - 1);
  for (std::size_t width : widths) total += width;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    if (!columns_[c].shrinks || total <= look.width) continue;
    const std::size_t cut =
        std::min(total - look.width, widths[c] > narrowest ? widths[c] - narrowest : 0);
    widths[c] -= cut;
    total -= cut;
  }

  std::string out;
  const auto line = [&](const auto& cell) {
    std::string text(indent, ' ');
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      if (c > 0) text.append(gap, ' ');
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
  for (const std::vector<std::string>& row : rows_)
    line([&](std::size_t c) {
      const std::string cell = aligned(c, row[c]);
      return columns_[c].dim ? look.dim(cell) : cell;
    });
  return out;
}

} // namespace mha::render
