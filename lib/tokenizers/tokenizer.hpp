#pragma once
// Text to token numbers, as the tokenizer beside a checkpoint cuts it.

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

/// Which special tokens stand around a text. What is written in the text itself is always
/// recognised.
struct SpecialTokens {
  bool none = false;                      ///< no BOS, EOS, CLS, SEP at all
  std::optional<bool> bos = std::nullopt; ///< with or without BOS, whatever the files say
};

/// Longer texts are refused before they are copied.
inline constexpr std::size_t longest_text = std::size_t{1} << 30; // bytes

/// One token of a text. Its piece and its text are Tokenizer::piece_of and text.
struct Token {
  int id = 0;
  std::uint32_t begin = 0; ///< bytes of the given text that it stands for; none for BOS, CLS …
  std::uint32_t end = 0;
};

struct Encoding {
  std::vector<Token> tokens;
  std::vector<Note> notes; ///< what the user should know: invalid UTF-8 was replaced …

  std::vector<int> ids() const;
};

/// What the files of a tokenizer became; its parts are private (parts.hpp).
struct Pipeline;

/// The tokenizer of a checkpoint. Cheap to copy; all its functions may be called from several
/// threads.
class Tokenizer {
public:
  explicit Tokenizer(std::shared_ptr<const Pipeline> parts) : parts_(std::move(parts)) {}

  /// Cuts a text into tokens. Invalid UTF-8 is read as U+FFFD, with a note. Throws Error where the
  /// text holds what the vocabulary has no token for, not even an unknown one, and where a pattern
  /// takes too long.
  Encoding encode(std::string_view text, SpecialTokens special = {}) const;

  /// The number of a piece as the vocabulary writes it.
  std::optional<int> id_of(std::string_view piece) const;
  /// The piece of a number; nothing for numbers that no token has.
  std::optional<std::string> piece_of(int id) const;
  /// What a token stands for in a text, its bytes as they are: " the", "\n", "ing", the content of
  /// a special one. Not all are whole characters. "" for a number that no token has.
  std::string text(int id) const;
  /// The same for human eyes, on one line: blanks as ␣, ends of lines as ⏎, other control
  /// characters escaped, bytes that are no whole character as <0xE2>. Texts that differ look
  /// different: what stands for something else here is escaped where a token is it. "<no token 7>"
  /// for a number that no token has.
  std::string label(int id) const;
  /// The text for files of UTF-8: bytes that are no whole character as <0xE2>.
  std::string text_in_utf8(int id) const;
  /// Several tokens that stand side by side, as one text: characters that tokens share are whole,
  /// and a blank stands before what begins a word.
  std::string text_in_utf8(std::span<const int> ids) const;
  /// Whether a blank stands before a token that is not the first: of vocabularies that mark what
  /// goes on, not what begins.
  bool begins_word(int id) const;

  /// One more than the largest number of a token.
  int size() const;
  /// The token that opens a text, that ends it, and that hides a word, where they are known.
  std::optional<int> bos() const;
  std::optional<int> eos() const;
  std::optional<int> mask() const;
  /// The first token type id other than 0 that the template gives to tokens of a single text, or 0.
  int type_id() const;
  /// Where the files contradict each other, and which one is followed.
  const std::vector<Note>& notes() const;
  /// Whether a token is a special one: control, not text.
  bool is_special(int id) const;

private:
  std::shared_ptr<const Pipeline> parts_;
};

/// Whether a folder has files of a tokenizer (that load_tokenizer would try to read).
bool has_tokenizer(const std::string& folder);

/// Loads the tokenizer of a checkpoint's folder: tokenizer.json, else GPT-2's vocab.json and
/// merges.txt, else BERT's vocab.txt; BOS, EOS and the mask from tokenizer_config.json,
/// special_tokens_map.json and config.json. Throws Error that names file and place for anything
/// malformed, and for whatever a file asks for that is not known here.
Tokenizer load_tokenizer(const std::string& folder);

/// The same from the text of a tokenizer.json alone; `name` is for messages.
Tokenizer read_tokenizer(const std::string& name, std::string_view json);

} // namespace mha::tokenizers
