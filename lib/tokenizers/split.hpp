#pragma once
// Patterns, and cutting pieces at their matches.

#include <mha/tokenizers/fields.hpp>
#include <mha/tokenizers/parts.hpp>
#include <mha/tokenizers/regex.hpp>

#include <functional>

namespace mha::tokenizers {

/// Cuts a text into matches and the parts between them.
using Pattern = std::function<std::vector<Match>(std::string_view)>;

/// Reads {"String": "▁"} or {"Regex": "\\s+"}.
Pattern read_pattern(const JsonNode& node);
/// Matches a literal text.
Pattern pattern_of(const std::string& text);
/// Matches each single character of a kind.
Pattern pattern_of(bool (*kind)(char32_t));

/// The treatment of matches.
enum class Behavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

/// Reads the setting "behavior"; `otherwise` is its default.
Behavior read_behavior(Fields& fields, std::optional<Behavior> otherwise = std::nullopt);

/// Cuts a piece at the matches; empty parts are left out.
void split(const AlignedText& piece, std::vector<Match> matches, Behavior behavior,
           const TakeText& take);

/// A pre-tokenizer that cuts every piece at the matches of a pattern; `invert`: at the parts
/// between.
PreTokenize split_at(Pattern pattern, Behavior behavior, bool invert = false);

} // namespace mha::tokenizers
