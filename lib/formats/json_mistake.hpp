#pragma once
// Mistakes in JSON in words for people who type it by hand, and the line around one.

#include <mha/formats/json_scanner.hpp>

#include <cstddef>
#include <string>
#include <string_view>

namespace mha::io {

struct JsonMistake {
  std::size_t at; ///< the byte to point at: the comma, not the bracket after it
  std::string words;
};

/// The mistake of a text in which `expected` ("a number expected") is not at a byte: what is
/// expected, and the cure where a habit from other languages is recognised.
JsonMistake json_mistake(std::string_view text, std::size_t at, std::string_view expected);

/// The line around a byte of a text, cut to what fits beside it.
JsonLine json_line_at(std::string_view text, std::size_t at);

} // namespace mha::io
