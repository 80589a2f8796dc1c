#pragma once
// Labels beside and below a map in text: tokens, or positions.

#include <mha/render/map.hpp>

namespace mha::render {

/// Letters of a token with their marks, for a column each; `wide`: of two columns, in which Chinese
/// characters have room. Of too many the last is "…", and so is one that has no room.
std::vector<std::string> letters_of(const std::string& label, bool wide);
/// Lines that the tokens of an axis take below each other; 0 where more than a quarter of them
/// would be cut: positions tell more then.
std::size_t stack_height(const MapAxis& axis, bool wide);
/// Before each line its one or two tokens, or now and then a position.
std::vector<std::string> line_labels(const MapAxis& axis, std::size_t tokens_a_line);
/// Columns of the widest text.
std::size_t widest(const std::vector<std::string>& texts);

} // namespace mha::render
