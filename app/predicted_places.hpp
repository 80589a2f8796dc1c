#pragma once
// At which positions of texts a model's predictions are looked at.

#include "options.hpp"
#include <mha/observe/prediction_rows.hpp>

#include <optional>
#include <vector>

namespace mha::app {

/// What a text is that has none of the chosen tokens.
enum class Lacking : std::uint8_t { error, passed_over };

/// The positions that a query chooses of one text.
std::vector<std::size_t> positions_in(const IndexList& query, const Texts& text, std::size_t batch,
                                      Lacking lacking);
/// --query of each text, `all` of its positions; else the last token of each, or the hidden ones of
/// a masked model. Throws Error where a masked model's texts hide none.
std::vector<TextPosition> predicted_places(const Texts& text, const std::optional<IndexList>& query,
                                           Lacking lacking = Lacking::error);
/// Notes how many lines of a file a query does not apply to. Throws Error where it applies to none.
void note_lines_passed_over(const std::optional<IndexList>& query, const Texts& text,
                            const Common& common);

} // namespace mha::app
