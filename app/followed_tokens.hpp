#pragma once
// --answer and --versus: tokens whose logits are followed.

#include "options.hpp"
#include <mha/model/texts.hpp>

namespace mha::app {

struct FollowedTokens {
  std::string answer, versus; ///< as they are spelled
  std::optional<std::size_t> answer_id, versus_id;

  /// The numbers of the answer and of the other token; none: not asked for. Throws UsageError for a
  /// token that is named twice, Error for a word of several tokens and for two that are one.
  std::pair<std::optional<int>, std::optional<int>> ids(const Texts& text) const;
  bool any() const { return !answer.empty() || answer_id || !versus.empty() || versus_id; }
  /// "' king', less that of ' queen'". `by_default`: what the answer is where none is named.
  std::string in_words(std::string by_default) const;
};

/// The options, --answer-id and --versus-id among them. `answer`, `versus`: what they do.
void add_followed_tokens(Cli& cli, FollowedTokens& tokens, std::string answer, std::string versus);

} // namespace mha::app
