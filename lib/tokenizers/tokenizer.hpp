#pragma once
// Cuts text into token ids, as the tokenizer of a checkpoint does.

#include <mha/system/note.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mha::tokenizers {

/// The choice of special tokens around a text. Those written in the text itself are always
/// recognised.
struct SpecialTokens {
  bool none = false;                      ///< no BOS, EOS, CLS, SEP at all
  std::optional<bool> bos = std::nullopt; ///< with or without BOS, regardless of the files
};

/// Longer texts are refused before they are copied.
inline constexpr std::size_t longest_text = std::size_t{1} << 30; // bytes

/// One token of a text. Tokenizer::piece_of and text give its piece and its text.
struct Token {
  int id = 0;
  std::uint32_t begin = 0; ///< its bytes in the given text; empty for BOS, CLS …
  std::uint32_t end = 0;
};

struct Encoding {
  std::vector<Token> tokens;
  std::vector<Note> notes; ///< such as replaced invalid UTF-8

  std::vector<int> ids() const;
};

/// The parts of a tokenizer, which are private (parts.hpp).
struct Pipeline;

/// The tokenizer of a checkpoint. It is cheap to copy, and its functions are thread-safe.
class Tokenizer {
public:
  explicit Tokenizer(std::shared_ptr<const Pipeline> parts) : parts_(std::move(parts)) {}

  /// Cuts a text into tokens. Invalid UTF-8 is read as U+FFFD, with a note. Throws Error if the
  /// vocabulary has no token for a part of the text, not even an unknown one, or if a pattern takes
  /// too long.
  Encoding encode(std::string_view text, SpecialTokens special = {}) const;

  /// The id of a piece in the spelling of the vocabulary.
  std::optional<int> id_of(std::string_view piece) const;
  /// The piece with an id, or nothing.
  std::optional<std::string> piece_of(int id) const;
  /// The raw bytes of a token in a text: " the", "\n", "ing", the content of a special token. They
  /// need not be whole characters. "" for an id without a token.
  std::string text(int id) const;
  /// The text of a token for display on one line: blanks as ␣, ends of lines as ⏎, other control
  /// characters escaped, bytes of incomplete characters as <0xE2>. Different texts have different
  /// labels, because a token that looks like such a replacement is escaped. "<no token 7>" for an
  /// id without a token.
  std::string label(int id) const;
  /// The text as UTF-8, with bytes of incomplete characters as <0xE2>.
  std::string text_in_utf8(int id) const;
  /// The text of several consecutive tokens, where characters that tokens share are whole and a
  /// blank precedes the first token of a word.
  std::string text_in_utf8(std::span<const int> ids) const;
  /// Whether a blank precedes a token that is not the first, in vocabularies that mark the
  /// continuations of words instead of their beginnings.
  bool begins_word(int id) const;

  /// One more than the largest id.
  int size() const;
  /// The tokens that begin a text, end it, and mask a word, if known.
  std::optional<int> bos() const;
  std::optional<int> eos() const;
  std::optional<int> mask() const;
  /// The first token type id other than 0 that the template gives to tokens of a single text, or 0.
  int type_id() const;
  /// Contradictions between the files, and which file is followed.
  const std::vector<Note>& notes() const;
  /// Whether a token is special, that is, control instead of text.
  bool is_special(int id) const;

private:
  std::shared_ptr<const Pipeline> parts_;
};

/// Whether a folder has files of a tokenizer that load_tokenizer would try to read.
bool has_tokenizer(const std::string& folder);

/// Loads the tokenizer from a checkpoint's folder: tokenizer.json, or else GPT-2's vocab.json and
/// merges.txt, or else BERT's vocab.txt. BOS, EOS and the mask are from tokenizer_config.json,
/// special_tokens_map.json and config.json. Throws Error with file and place for anything malformed
/// or not known here.
Tokenizer load_tokenizer(const std::string& folder);

/// Reads the text of a tokenizer.json without other files; `name` is for messages.
Tokenizer read_tokenizer(const std::string& name, std::string_view json);

} // namespace mha::tokenizers
