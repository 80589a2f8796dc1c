#pragma once
// Cutting pieces where a pattern is found, and what becomes of what was found.

#include <mha/load/tokenizers/fields.hpp>
#include <mha/load/tokenizers/parts.hpp>
#include <mha/load/tokenizers/pattern.hpp>

namespace mha::tokenizers {

enum class Behavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

/// The behavior of that name, or `otherwise` where the setting is missing.
Behavior read_behavior(Fields& fields, std::optional<Behavior> otherwise = std::nullopt);

/// Cuts a piece; what is empty is left out.
void split(const AlignedText& piece, std::vector<Match> matches, Behavior behavior,
           std::vector<AlignedText>& into);

/// A pre-tokenizer that cuts every piece there.
PreTokenizer split_at(Pattern pattern, Behavior behavior, bool invert = false);

/// A pre-tokenizer that turns each piece that is no added token into others.
PreTokenizer each_piece(std::function<void(AlignedText&&, std::vector<AlignedText>&)> cut);

} // namespace mha::tokenizers
