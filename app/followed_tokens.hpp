#pragma once
// --answer and --versus: tokens whose logits are followed.

#include "options.hpp"
#include <mha/model/texts.hpp>
#include <mha/model/token_of_texts.hpp>

namespace mha::app {

/// A token for all texts, or one each, as the line names it.
struct FollowedToken {
  std::string option; ///< "--answer"
  std::string word;
  std::optional<std::size_t> id = {};
  std::string path = {}; ///< of a file with a line a text

  bool given() const { return !word.empty() || id || !path.empty(); }
  /// The numbers. Throws UsageError for a token that is named twice, Error for a word of several
  /// tokens and for a file that has not a line for each text.
  TokenOfTexts ids(const Texts& texts) const;
  /// "' king'", "token 11", "each text's token in answers.txt"; "" where none is named.
  std::string in_words() const;
};

struct FollowedTokens {
  FollowedToken answer{"--answer", {}}, versus{"--versus", {}};

  /// The numbers of the answer and of the other token; none: not asked for. Throws Error as they
  /// do, and for two that are one.
  std::pair<TokenOfTexts, TokenOfTexts> ids(const Texts& texts) const;
  bool any() const { return answer.given() || versus.given(); }
  /// "' king', less that of ' queen'". `by_default`: what the answer is where none is named.
  std::string in_words(std::string by_default) const;
};

/// The options, by number and of files among them. `answer`, `versus`: what they do.
void add_followed_tokens(Cli& cli, FollowedTokens& tokens, std::string answer, std::string versus);

} // namespace mha::app
