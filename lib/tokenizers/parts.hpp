#pragma once
// Parts of a tokenizer. A text goes through them in this order: added tokens are split off, the
// rest is normalized and split into words, and the model splits each word into tokens; the template
// puts special tokens around them.

#include <mha/system/note.hpp>
#include <mha/tokenizers/added_tokens.hpp>
#include <mha/tokenizers/aligned_text.hpp>
#include <mha/tokenizers/vocabulary.hpp>

#include <functional>
#include <memory>

namespace mha::tokenizers {

using Normalizer = std::function<void(AlignedText&)>;
/// Splits a piece of text that holds no added token and passes each result to the callback at once,
/// so that a long text is never stored as a list of words.
using PreTokenize = std::function<void(AlignedText&&, const TakeText&)>;
/// Steps in order; each splits the pieces of the previous one.
using PreTokenizer = std::vector<PreTokenize>;

/// A token inside a word.
struct Cut {
  int id = 0;
  std::uint32_t begin = 0, end = 0; ///< its bytes in the word
};

class Model {
public:
  virtual ~Model() = default;
  /// Appends the tokens of a word that is not empty. Throws Error for a word that cannot be
  /// tokenized.
  virtual void cut(std::string_view word, std::vector<Cut>& tokens) const = 0;
  const Vocabulary& vocabulary() const { return vocabulary_; }
  /// The token for text that the vocabulary lacks.
  std::optional<int> unknown() const { return unknown_; }

protected:
  Vocabulary vocabulary_;
  std::optional<int> unknown_;
};

/// The post-processor's template: ids of special tokens in order; nullopt is the place of the text,
/// which may occur more than once or not at all.
using TokenTemplate = std::vector<std::optional<int>>;

/// Settings of a BertNormalizer; nullopt for strip_accents means as lowercase.
struct BertNormalizerSettings {
  bool clean_text = true, handle_chinese_chars = true, lowercase = true;
  std::optional<bool> strip_accents;
};

/// Settings of tokenizer.json that tokenizer_config.json can override (tokenizer_config.cpp);
/// nullopt if the tokenizer has no such part.
struct OverridableSettings {
  std::optional<BertNormalizerSettings> bert; ///< nullopt if the normalizer is not a BertNormalizer
  std::optional<bool> add_prefix_space;       ///< nullopt if the pre-tokenizer is not ByteLevel
  bool use_regex = true;                      ///< of the ByteLevel pre-tokenizer
  bool lower_case = false;                    ///< whether the normalizer makes lower case
};

struct Pipeline {
  std::string name; ///< of the file, for messages
  OverridableSettings overridable;
  std::optional<AddedTokens> added;
  Normalizer normalizer;      ///< empty if the tokenizer has none
  PreTokenizer pre_tokenizer; ///< empty if the tokenizer has none; a piece is then a word
  std::unique_ptr<Model> model;
  TokenTemplate post_template{std::nullopt};
  std::optional<int> bos, eos, mask;
  int type_id = 0; ///< first one other than 0 that the template gives to a single text, or 0
  std::vector<Note> notes; ///< contradictions between the files
  /// The file's truncation length, which is not applied.
  std::optional<std::size_t> ignored_max_length;
  bool byte_level = false;       ///< vocabulary entries spell bytes as GPT-2's 256 characters
  bool byte_fallback = false;    ///< the entries <0x00> to <0xFF> are single bytes
  bool marks_spaces = false;     ///< vocabulary entries write a space as ▁
  std::string continuing_prefix; ///< the prefix of entries inside a word, such as ##
  std::string word_suffix;       ///< the suffix of entries at a word's end, such as </w>
};

} // namespace mha::tokenizers
