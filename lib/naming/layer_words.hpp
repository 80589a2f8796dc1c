#pragma once
// A layer in one line of words: its number, its naming, its sizes, and the settings that shape it.

#include <mha/layer/layer.hpp>

#include <string>
#include <string_view>

namespace mha {

/// Names of files and patches are in it unchanged; they are made visible where it is shown.
struct LayerWords {
  std::string layer; ///< "layer 1"; "" where it has no number
  std::string facts; ///< " (LLaMA names) · 4 heads × 16 · T 33 · float32 · causal"

  /// "layer 1 (LLaMA names) · 4 heads × 16 · …".
  std::string text() const;
};
/// `id` and `naming` as in the files; "" where these have none.
LayerWords layer_in_words(const Layer& layer, std::string_view id, std::string_view naming);

} // namespace mha
