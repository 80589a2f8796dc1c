#pragma once
// The tokenizer in the keys of a GGUF file.

#include <mha/tokenizers/parts.hpp>

#include <vector>

namespace mha::tokenizers {

/// Whether a path is a GGUF file with a tokenizer.
bool has_gguf_tokenizer(const std::string& path);
/// Reads the tokenizer. Throws Error with file and key for anything missing or not known here.
std::shared_ptr<Pipeline> read_gguf_tokenizer(const std::string& path);

/// A way to cut words in a byte-level tokenizer, by its name in GGUF (tokenizer.ggml.pre).
struct GgufWords {
  std::string_view names;                 ///< separated by blanks
  std::vector<std::string_view> patterns; ///< applied in order, each isolating its matches
  bool whole_words = false;               ///< a word that is in the vocabulary is one token
  bool bos = false;                       ///< BOS is put first unless a key decides otherwise
  bool sep = false;                       ///< the separator is put last, likewise
};
/// Throws Error for an unknown name, with close known ones. `where` begins the message.
const GgufWords& gguf_words(std::string_view where, std::string_view name);

/// SentencePiece's BPE, which merges pairs in the order of their scores, the highest first.
/// `scores` are by id. Without `unknown`, a character without piece or bytes is an Error.
std::unique_ptr<Model> scored_bpe(Vocabulary vocabulary, std::vector<float> scores,
                                  std::optional<int> unknown);

} // namespace mha::tokenizers
