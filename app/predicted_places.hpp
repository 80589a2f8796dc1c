#pragma once
// The positions of texts whose predictions are shown.

#include "options.hpp"
#include <mha/observe/prediction_rows.hpp>

#include <optional>
#include <vector>

namespace mha::app {

/// How to treat a text without any of the selected tokens.
enum class MissingTokens : std::uint8_t { error, skip };

/// The positions that a query selects in one text.
std::vector<std::size_t> positions_in(const IndexList& query, const Texts& text, std::size_t batch,
                                      MissingTokens missing_tokens);
/// The positions that --query selects in each text (`all`: every one); without it, the last token
/// of each text, or the hidden tokens for a masked model. Throws Error if the texts of a masked
/// model hide none.
std::vector<TextPosition> predicted_places(const Texts& text, const std::optional<IndexList>& query,
                                           MissingTokens missing_tokens = MissingTokens::error);
/// Notes how many lines of a file lack the selected tokens. Throws Error if all of them do.
void note_skipped_lines(const std::optional<IndexList>& query, const Texts& text,
                        const Common& common);

} // namespace mha::app
