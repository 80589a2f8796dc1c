#pragma once
// Cutting pieces where a pattern is found, and what becomes of what was found.

#include <mha/tokenizers/fields.hpp>
#include <mha/tokenizers/parts.hpp>
#include <mha/tokenizers/regex.hpp>

#include <functional>

namespace mha::tokenizers {

/// Cuts a text into what is found and what lies between.
using Pattern = std::function<std::vector<Match>(std::string_view)>;

/// {"String": "▁"} or {"Regex": "\\s+"}.
Pattern read_pattern(const JsonNode& node);
/// Text as it is.
Pattern pattern_of(const std::string& text);
/// Every character of a kind, each by itself.
Pattern pattern_of(bool (*kind)(char32_t));

enum class Behavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

/// The behavior of that name, or `otherwise` where the setting is missing.
Behavior read_behavior(Fields& fields, std::optional<Behavior> otherwise = std::nullopt);

/// Cuts a piece; what is empty is left out.
void split(const AlignedText& piece, std::vector<Match> matches, Behavior behavior,
           const TakeText& take);

/// Cuts every piece there.
PreTokenize split_at(Pattern pattern, Behavior behavior, bool invert = false);

} // namespace mha::tokenizers
