#pragma once
// Patterns that a text is cut at: a regular expression, some text as it is, a kind of character.

#include <mha/formats/json_node.hpp>
#include <mha/tokenizers/regex.hpp>

#include <functional>

namespace mha::tokenizers {

/// Cuts a text into what is found and what lies between.
using Pattern = std::function<std::vector<Match>(std::string_view)>;

/// {"String": "▁"} or {"Regex": "\\s+"}.
Pattern read_pattern(const io::JsonNode& node);
/// Text as it is.
Pattern pattern_of(const std::string& text);
/// Every character of a kind, each by itself.
Pattern pattern_of(bool (*kind)(char32_t));

} // namespace mha::tokenizers
