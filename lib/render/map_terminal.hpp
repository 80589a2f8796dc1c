#pragma once
// Maps as text: coloured cells, or shades of characters, that fit a window.

#include <mha/render/map.hpp>

namespace mha::render {

inline constexpr std::size_t map_gap = 2; ///< columns between panels
/// Columns that a panel's own range has above it; a longer one is cut.
inline constexpr std::size_t widest_range = 13;

/// The way in which cells become characters, and the number of cells that fit.
struct MapText {
  bool wide = true;               ///< a cell is two columns of one line; else one column
  bool halves = false;            ///< a line holds two rows of cells, as half blocks
  std::size_t across = 1;         ///< panels side by side
  std::size_t rows = 1, cols = 1; ///< the most cells of a panel
  bool stacked = false;           ///< tokens are written below their columns, letter under letter
  bool positions = true;          ///< positions below the cells, unless tokens are there
};

/// The sizes of a picture before it is pooled.
struct MapTextNeeds {
  std::size_t panels = 1, columns = 1; ///< in all; of the picture's grid
  MapAxis rows, cols;                  ///< factor 1: every token
  std::size_t title = 2;               ///< columns of the longest short_title()
};

/// The most detailed way that fits the window: all panels together, as long as each of them keeps
/// 8 columns and 3 lines; else several panels side by side. Without a height
/// (a pipe, a file) only the width counts, and a panel is as large as it may be.
MapText fit_text(const MapTextNeeds& needs, const TextStyle& text_style);

/// The picture, pooled to what fit_text() gave, with a legend; ends in a line break.
std::string map_text(const MapPicture& picture, const MapText& text, const TextStyle& text_style);

/// Letters of a token with their marks, for a column each; `wide`: of two columns, in which Chinese
/// characters have room. Of too many the last is "…", and so is one that has no room.
std::vector<std::string> letters_of(const std::string& label, bool wide);
/// Lines that the tokens of an axis take below each other; 0 where more than a quarter of them
/// would be cut: positions are more useful then.
std::size_t stack_height(const MapAxis& axis, bool wide);
/// The label of each line: its one or two tokens, or every fourth line's position.
std::vector<std::string> line_labels(const MapAxis& axis, std::size_t tokens_a_line);
/// Columns of the widest text.
std::size_t widest(const std::vector<std::string>& texts);

} // namespace mha::render
