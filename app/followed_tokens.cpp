#include "followed_tokens.hpp"

#include <utility>

namespace mha::app {

namespace {

/// The id of the token `word`, or of the token that is `word` after a blank; or `id`.
std::optional<int> token_of(const Texts& text, const std::string& word, const char* option,
                            const std::optional<std::size_t>& id) {
  if (id && !word.empty())
    throw UsageError(fmt::format("{0} and {0}-id name one token: give one of them", option));
  if (id) {
    if (*id >= text.model().vocabulary())
      fail("{}-id {}: the vocabulary has 0 to {}", option, *id, text.model().vocabulary() - 1);
    return static_cast<int>(*id);
  }
  if (word.empty()) return std::nullopt;
  return text.token_of(word, option, fmt::format(", or give {}-id", option));
}

std::string token_text(const std::string& token, const std::optional<std::size_t>& id) {
  if (id) return fmt::format("token {}", *id);
  return token.empty() ? std::string() : fmt::format("'{}'", render::visible(token));
}

} // namespace

std::pair<std::optional<int>, std::optional<int>> FollowedTokens::ids(const Texts& text) const {
  const std::pair ids{token_of(text, answer, "--answer", answer_id),
                      token_of(text, versus, "--versus", versus_id)};
  if (ids.second && ids.first == ids.second)
    fail("--answer and --versus are both '{}', so the difference of their logits is always 0",
         text.plain(*ids.first));
  return ids;
}

std::string FollowedTokens::in_words(std::string by_default) const {
  const std::string named = token_text(answer, answer_id), other = token_text(versus, versus_id);
  return (named.empty() ? std::move(by_default) : named) +
         (other.empty() ? "" : ", less that of " + other);
}

void add_followed_tokens(Cli& cli, FollowedTokens& tokens, std::string answer, std::string versus) {
  cli.value("--answer", "TOKEN", tokens.answer, std::move(answer));
  cli.value("--answer-id", "N", tokens.answer_id, "the same, by its number");
  cli.value("--versus", "TOKEN", tokens.versus, std::move(versus));
  cli.value("--versus-id", "N", tokens.versus_id, "the same, by its number");
}

} // namespace mha::app
