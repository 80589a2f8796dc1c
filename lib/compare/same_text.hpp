#pragma once
// Whether a whole model's reference is of the text that is computed here: said first, once.

#include <mha/compare/reference_files.hpp>
#include <mha/layer/block.hpp>
#include <mha/system/message.hpp>

#include <optional>
#include <string>
#include <vector>

namespace mha {

/// A text as it is computed here.
struct ComputedText {
  std::vector<std::vector<int>> ids; ///< of one text, or of several, padded behind their tokens
  const Embedding* embedding = nullptr;
  bool causal = true;                    ///< what stands behind a text does not change it
  std::optional<int> pad = std::nullopt; ///< the padding token, where it is known
  std::vector<std::size_t> lengths{};    ///< of each text without padding; empty: there is none
};

struct SameText {
  Message why;                    ///< why a reference is of another text, in a sentence; or ""
  std::vector<std::string> notes; ///< which part of a reference is this text's
  /// The tokens that a reference has before and behind each text, padding as a rule; empty: not
  /// known, or it is of the text alone.
  std::vector<std::vector<int>> before = {}, behind = {};
};

/// Compares a reference's tokens with a text's, and leaves of its files what is the text's: a batch
/// item's rows without the padding before or behind it. Its own token numbers are believed
/// (input_ids, with attention_mask), else those that its embedding shows, else the rows that most
/// of its streams have.
SameText keep_same_text(const ReferenceFiles& files, const ComputedText& text);

struct TokensOfReference {
  std::vector<std::vector<int>> ids;  ///< of each text, padding included; empty: not known
  std::vector<std::vector<int>> mask; ///< attention_mask alike; empty: none is there
  std::size_t rows = 0;               ///< those that most of its streams have; 0: it has none
};

/// From input_ids and attention_mask; else from what enters the first layer, where its rows are
/// the model's own for some tokens; else its rows alone.
TokensOfReference tokens_of(const ReferenceFile& file, const ComputedText& text);

} // namespace mha
