#pragma once
// The tokenizer that a GGUF file brings in its keys.

#include <mha/tokenizers/parts.hpp>

#include <vector>

namespace mha::tokenizers {

/// Whether a path is a GGUF file with a tokenizer.
bool has_gguf_tokenizer(const std::string& path);
/// Builds it. Throws Error that names file and key for what is missing or not known here.
std::shared_ptr<Pipeline> read_gguf_tokenizer(const std::string& path);

/// How a byte-level tokenizer cuts words, by the name that GGUF has for it (tokenizer.ggml.pre).
struct GgufWords {
  std::string_view names;                 ///< separated by blanks
  std::vector<std::string_view> patterns; ///< one after the other, each isolating its matches
  bool whole_words = false;               ///< a word that is a piece is not cut
  bool bos = false;                       ///< BOS is put first where no key says it
  bool sep = false;                       ///< and the separator last
};
/// Throws Error for an unknown name, with the known ones. `where` begins the message.
const GgufWords& gguf_words(std::string_view where, std::string_view name);

/// SentencePiece's BPE: pairs become pieces in the order of the scores, the highest first. `scores`
/// by number; without the unknown token, a character without piece or bytes is an Error.
std::unique_ptr<Model> scored_bpe(Vocabulary vocabulary, std::vector<float> scores,
                                  std::optional<int> unknown);

} // namespace mha::tokenizers
