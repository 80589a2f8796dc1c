#pragma once
// --answer and --versus: tokens whose logits are followed.

#include "options.hpp"
#include <mha/model/texts.hpp>
#include <mha/model/token_of_texts.hpp>

namespace mha::app {

/// A token for all texts, or one for each, as named on the command line.
struct FollowedToken {
  std::string option; ///< "--answer"
  std::string word;
  std::optional<std::size_t> id = {};
  std::string path = {}; ///< of a file with one line for each text

  bool given() const { return !word.empty() || id || !path.empty(); }
  /// The token numbers. Throws UsageError for a token that is named twice, Error for a word of
  /// several tokens and for a file whose lines do not match the texts.
  TokenOfTexts ids(const Texts& texts) const;
  /// "' king'", "token 11", "each text's token in answers.txt"; "" if none is named.
  std::string in_words() const;
};

struct FollowedTokens {
  FollowedToken answer{"--answer", {}}, versus{"--versus", {}};

  /// The numbers of the answer and of the other token, empty if not given. Throws Error as
  /// FollowedToken::ids() does, and if both are the same token.
  std::pair<TokenOfTexts, TokenOfTexts> ids(const Texts& texts) const;
  bool any() const { return answer.given() || versus.given(); }
  /// "' king', less that of ' queen'". `by_default`: the answer if none is named.
  std::string in_words(std::string by_default) const;
};

/// Declares the options, also those by number and from files. `answer`, `versus`: their help.
void add_followed_tokens(Cli& cli, FollowedTokens& tokens, std::string answer, std::string versus);

} // namespace mha::app
