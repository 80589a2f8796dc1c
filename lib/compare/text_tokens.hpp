#pragma once
// Which tokens a reference was computed for.

#include <mha/compare/same_text.hpp>

#include <vector>

namespace mha {

struct TokensOfReference {
  std::vector<std::vector<int>> ids;  ///< of each text, padding included; empty: not known
  std::vector<std::vector<int>> mask; ///< attention_mask alike; empty: none is there
  std::size_t rows = 0;               ///< those that most of its streams have; 0: it has none
};

/// From input_ids and attention_mask; else from what enters the first layer, where its rows are
/// the model's own for some tokens; else its rows alone.
TokensOfReference tokens_of(const ReferenceFile& file, const ComputedText& text);

} // namespace mha
