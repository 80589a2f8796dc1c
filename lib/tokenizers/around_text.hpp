#pragma once
// Which special tokens stand around a text.

#include <optional>

namespace mha::tokenizers {

/// Which special tokens stand around a text. What is written in the text itself is always
/// recognised.
struct SpecialTokens {
  bool none = false;                      ///< no BOS, EOS, CLS, SEP at all
  std::optional<bool> bos = std::nullopt; ///< with or without BOS, whatever the files say
};

} // namespace mha::tokenizers
