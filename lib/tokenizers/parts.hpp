#pragma once
// Parts of a tokenizer. A text goes through them in this order: added tokens are cut out,
// the rest is normalized, cut into words, and the model cuts each word into tokens; special tokens
// go around them.

#include <mha/system/note.hpp>
#include <mha/tokenizers/added_tokens.hpp>
#include <mha/tokenizers/aligned_text.hpp>
#include <mha/tokenizers/vocabulary.hpp>

#include <functional>
#include <memory>

namespace mha::tokenizers {

using Normalizer = std::function<void(AlignedText&)>;
/// Cuts a piece that is no added token, and hands over what it becomes, one after another: a long
/// text is never held as millions of words.
using PreTokenize = std::function<void(AlignedText&&, const TakeText&)>;
/// Each cuts what the one before made.
using PreTokenizer = std::vector<PreTokenize>;

/// A token inside a word.
struct Cut {
  int id = 0;
  std::uint32_t begin = 0, end = 0; ///< bytes of the word
};

class Model {
public:
  virtual ~Model() = default;
  /// Appends the tokens of a word that is not empty. Throws Error for a word that has none.
  virtual void cut(std::string_view word, std::vector<Cut>& tokens) const = 0;
  const Vocabulary& vocabulary() const { return vocabulary_; }
  /// The token that stands for what the vocabulary lacks.
  std::optional<int> unknown() const { return unknown_; }

protected:
  Vocabulary vocabulary_;
  std::optional<int> unknown_;
};

/// What stands around a text: the numbers of special tokens, and the text itself (nothing), which
/// may be there more than once or never.
using TokenTemplate = std::vector<std::optional<int>>;

/// What a BertNormalizer does; accents are stripped with lower case where nothing says otherwise.
struct BertNormalizerSettings {
  bool clean_text = true, handle_chinese_chars = true, lowercase = true;
  std::optional<bool> strip_accents;
};

/// Parts of tokenizer.json that tokenizer_config.json may say otherwise (beside_json.cpp): nothing
/// where the file has another kind of part.
struct OverridableSettings {
  std::optional<BertNormalizerSettings> bert; ///< the normalizer is a BertNormalizer
  std::optional<bool> add_prefix_space;       ///< the pre-tokenizer is ByteLevel
  bool use_regex = true;                      ///< its other setting
  bool lower_case = false;                    ///< a part of the normalizer makes lower case
};

struct Pipeline {
  std::string name; ///< the file, for messages
  OverridableSettings overridable;
  std::optional<AddedTokens> added;
  Normalizer normalizer;      ///< empty where there is none
  PreTokenizer pre_tokenizer; ///< empty where there is none: then a piece is a word
  std::unique_ptr<Model> model;
  TokenTemplate post_template{std::nullopt};
  std::optional<int> bos, eos, mask;
  int type_id = 0;         ///< a type_id other than 0 that the template gives to a lone text
  std::vector<Note> notes; ///< where the files contradict each other
  std::optional<std::size_t>
      ignored_max_length;        ///< what the file would cut a text to, which is not done
  bool byte_level = false;       ///< pieces write bytes as GPT-2's 256 characters
  bool byte_fallback = false;    ///< the pieces <0x00> to <0xFF> are bytes
  bool marks_spaces = false;     ///< pieces write a blank as ▁
  std::string continuing_prefix; ///< "##" where a piece inside a word begins with it
  std::string word_suffix;       ///< "</w>" where a piece at a word's end ends with it
};

} // namespace mha::tokenizers
