#pragma once
// Columns of text: a heading, and rows below it, aligned by display width.

#include <mha/render/text.hpp>

namespace mha::render {

/// A small table of words. Cells may hold escapes for bold and dim.
class Table {
public:
  struct Column {
    std::string title = {};
    bool right = false;   ///< right-aligned: numbers
    bool shrinks = false; ///< cut short where the lines would not fit
    bool dim = false;
    bool wraps = false;   ///< where it shrinks, it goes on below instead of being cut
    bool follows = false; ///< says something of the column before it: stays with it
    bool names = false;   ///< says what a row is: stands in each part of a table that is split
    bool spare = false;   ///< shows again what another column says: left out where the lines would
                          ///< not fit
  };
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  bool empty() const { return rows_.empty(); }
  /// Columns of the screen that a line takes where nothing is left out, cut or wrapped.
  std::size_t width() const;
  /// Lines that fit `look`: columns shrink, then spare ones go, then the table is split into parts
  /// below each other, each led by the columns that name a row (else by the first); where such a
  /// part does not fit, one blank stands between its columns, and names shrink.
  /// Titles are bold.
  std::string text(const TextStyle& text_style, std::size_t indent = 0) const;

private:
  std::vector<std::size_t> natural_widths() const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

} // namespace mha::render
