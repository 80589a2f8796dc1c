#pragma once
// A layer of a source in one line.

#include <mha/naming/layer_words.hpp>
#include <mha/render/text.hpp>

namespace mha::render {

/// "data/induction layer 1 (LLaMA names) · 4 heads × 16 · T 33 · float32 · causal", with a line
/// break; between its parts it is cut to the columns that the look has.
std::string headline(std::string_view title, const LayerWords& words, const TextStyle& text_style);
/// The same in one line, however long, without a break.
std::string headline_text(std::string_view title, const LayerWords& words);

} // namespace mha::render
