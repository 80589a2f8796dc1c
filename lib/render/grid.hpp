#pragma once
// Columns of text: a heading, and rows below it, aligned by display width.

#include <mha/render/text.hpp>

namespace mha::render {

/// A small table of words. Cells may hold escapes for bold and dim.
class Grid {
public:
  struct Column {
    std::string title;
    bool right = false;   ///< right-aligned: numbers
    bool shrinks = false; ///< cut short where the lines would not fit
    bool dim = false;
    bool wraps = false; ///< where it shrinks, it goes on below instead of being cut
  };
  explicit Grid(std::vector<Column> columns) : columns_(std::move(columns)) {}
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  bool empty() const { return rows_.empty(); }
  /// Lines as wide as `look` has room for, as far as columns that shrink allow; titles are bold.
  std::string text(const TextStyle& look, std::size_t indent = 0) const;

private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

} // namespace mha::render
