#pragma once
// Tokens that are cut out of a text before any other processing.

#include <mha/tokenizers/aligned_text.hpp>
#include <mha/tokenizers/prefixes.hpp>

#include <functional>
#include <map>

namespace mha::tokenizers {

struct AddedToken {
  int id = 0;
  std::string content;
  bool single_word = false; ///< only found where neither neighbour is part of a word
  bool lstrip = false;      ///< includes the white space before it
  bool rstrip = false;      ///< includes the white space after it
  bool normalized = false;  ///< searched in the normalized text, in its own normalized form
  bool special = false;
};

class AddedTokens {
public:
  /// `normalize` replaces a token's content by its normalized form.
  AddedTokens(std::vector<AddedToken> tokens, const std::function<void(AlignedText&)>& normalize);

  /// Cuts out the tokens that are searched in the written text, or those in the normalized one.
  void cut(AlignedText text, bool normalized, const TakeText& take) const;
  const AddedToken* find(int id) const;
  const AddedToken* find(std::string_view content) const;
  const std::vector<AddedToken>& tokens() const { return tokens_; }

private:
  std::vector<AddedToken> tokens_;                             ///< in the order of their ids
  Prefixes written_, normalized_;                              ///< values are indices of tokens_
  std::map<std::string, std::size_t, std::less<>> by_content_; ///< first index in tokens_
};

} // namespace mha::tokenizers
