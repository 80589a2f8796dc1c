#pragma once
// The texts of a whole model's run as given on the command line: text, files, or token numbers.

#include <mha/system/note.hpp>
#include <mha/tensor/tensor.hpp>
#include <mha/tokenizers/tokenizer.hpp>

#include <string>
#include <vector>

namespace mha {

/// The options that name a run's texts. Several of one kind are a batch.
struct Text {
  std::vector<std::string> ids;   ///< "464,2068", or a file: .npy, .json …, T or B × T
  std::vector<std::string> texts; ///< the texts themselves
  std::vector<std::string> files; ///< of text, read byte for byte; "-" is standard input
  std::string rows;               ///< a file of vectors in place of the tokens' rows
  bool each_line = false;         ///< of the files: every line is a text
  bool batch = false;             ///< results have the batch axis, of one text too
  tokenizers::SpecialTokens special;

  /// Whether a text is given. Throws Error for options that change nothing: each_line without a
  /// file, special tokens without a text to cut or against each other.
  bool given() const;
};

struct TokenIds {
  std::vector<std::vector<int>> ids; ///< equally long
  std::vector<std::size_t> lengths;  ///< without the padding at the end
  bool batched = false;              ///< several, or a file with two axes
  std::vector<Message> notes{};      ///< which padding was left out
};

/// From "464,2068", or a file of whole numbers: T or B × T, with `attention_mask` beside them where
/// some are padding, before a text's tokens (left out: positions count from the first token) or
/// after them. Several are a batch, padded with `pad`. Throws Error.
TokenIds read_ids(const std::vector<std::string>& typed, int pad);
/// Vectors for the tokens' places, (B,) T, `width`: the tensor inputs_embeds of a file, or its only
/// one. Throws Error.
Tensor read_embedding_rows(const std::string& path, std::size_t width);
/// Several texts as one batch, padded at the end.
TokenIds padded(std::vector<std::vector<int>> texts, bool batched, int pad);

/// The typed texts, then those of files: each file whole, or each of its lines.
std::vector<std::string> texts_of(std::vector<std::string> typed,
                                  const std::vector<std::string>& files, bool each_line);
/// A note for each text from standard input that ends with a line feed: `echo` adds one, and it is
/// a token. `texts`: what texts_of gave.
std::vector<Note> notes_of_line_feeds(const Text& text, const std::vector<std::string>& texts);
/// The name of one of these texts in messages: "line 3 of verses.txt", else "text 3".
std::string place_of_text(const Text& text, std::size_t b);

} // namespace mha
