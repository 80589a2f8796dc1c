#pragma once
// At which positions of texts a model's predictions are looked at.

#include <mha/layer/select.hpp>
#include <mha/observe/prediction_rows.hpp>

#include <optional>
#include <vector>

namespace mha {
class Texts;
}

namespace mha::app {

/// --query of each text, `all` of its positions; else the last token of each, or the hidden ones of
/// a masked model. Throws Error where a masked model's texts hide none.
std::vector<TextPosition> predicted_places(const Texts& text,
                                           const std::optional<IndexList>& query);

} // namespace mha::app
