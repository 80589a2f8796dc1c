#pragma once
// Checks whether a whole model's reference belongs to the text that is computed here.

#include <mha/compare/reference_files.hpp>
#include <mha/layer/block.hpp>
#include <mha/system/message.hpp>

#include <optional>
#include <string>
#include <vector>

namespace mha {

/// The texts that are computed here.
struct ComputedText {
  std::vector<std::vector<int>> ids; ///< of each text, padded at the end
  const Embedding* embedding = nullptr;
  bool causal = true;                    ///< tokens after a text do not change it
  std::optional<int> pad = std::nullopt; ///< the padding token, if known
  std::vector<std::size_t> lengths{};    ///< of each text without padding; empty without padding
};

struct SameText {
  Message why;                    ///< why a reference is of another text, in a sentence; or ""
  std::vector<std::string> notes; ///< on the part of a reference that is this text's
  /// The reference's tokens before and after each text, usually padding. Empty if they are not
  /// known or there are none.
  std::vector<std::vector<int>> tokens_before = {}, tokens_after = {};
};

/// Compares a reference's tokens with a text's, and reduces its files to the text: a batch item's
/// rows without the padding around it. The reference's token numbers (input_ids, with
/// attention_mask) decide, else those that its embedding shows, else the number of rows that most
/// of its streams have.
SameText keep_same_text(const ReferenceFiles& files, const ComputedText& text);

/// The tokens that a reference was computed for.
struct TokensOfReference {
  std::vector<std::vector<int>> ids;  ///< of each text with its padding; empty if not known
  std::vector<std::vector<int>> mask; ///< attention_mask, or empty
  std::size_t rows = 0;               ///< of most of its streams; 0 if it has none
};

/// Finds the tokens by input_ids and attention_mask, else by the first layer's input if its rows
/// are embeddings of the model; else only the number of rows.
TokensOfReference tokens_of(const ReferenceFile& file, const ComputedText& text);

} // namespace mha
