#pragma once
// The texts that a whole model is run on, as they are typed.

#include <mha/tokenizers/tokenizer.hpp>

#include <string>
#include <vector>

namespace mha {

/// What a whole model is run on, as it is typed. Several of one kind are a batch.
struct Text {
  std::vector<std::string> ids;   ///< "464,2068", or a file: .npy, .json …, T or B × T
  std::vector<std::string> texts; ///< as they are
  std::vector<std::string> files; ///< of text: their bytes as they are; "-" is standard input
  std::string rows;               ///< a file of vectors in the place of the tokens' rows
  bool each_line = false;         ///< of the files: every line is a text
  bool batch = false;             ///< results have the batch axis, of one text too
  tokenizers::SpecialTokens special;

  /// Whether there is one. Throws Error for options that change nothing: each_line without a file,
  /// special tokens without a text to cut or against each other.
  bool given() const;
};

} // namespace mha
