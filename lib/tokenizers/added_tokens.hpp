#pragma once
// Tokens that are cut out of a text before anything else is done to it.

#include <mha/tokenizers/aligned_text.hpp>
#include <mha/tokenizers/prefixes.hpp>

#include <functional>
#include <map>

namespace mha::tokenizers {

struct AddedToken {
  int id = 0;
  std::string content;
  bool single_word = false; ///< only between what is no part of a word
  bool lstrip = false;      ///< takes the white space before it along
  bool rstrip = false;      ///< and behind it
  bool normalized = false;  ///< sought in the normalized text, in its own normalized form
  bool special = false;
};

class AddedTokens {
public:
  /// `normalize` gives a token's normalized form.
  AddedTokens(std::vector<AddedToken> tokens, const std::function<void(AlignedText&)>& normalize);

  /// Cuts out the tokens that are sought in the text as it is written, or as it is normalized.
  void cut(AlignedText text, bool normalized, const TakeText& take) const;
  const AddedToken* find(int id) const;
  const AddedToken* find(std::string_view content) const;
  const std::vector<AddedToken>& tokens() const { return tokens_; }

private:
  std::vector<AddedToken> tokens_;                             ///< in the order of their numbers
  Prefixes written_, normalized_;                              ///< of places in tokens_
  std::map<std::string, std::size_t, std::less<>> by_content_; ///< places in tokens_, the first
};

} // namespace mha::tokenizers
