#include "followed_tokens.hpp"

#include <mha/files/text.hpp>
#include <mha/system/parse.hpp>

#include <utility>

namespace mha::app {

namespace {

/// The token on a line, by its number if the model has no tokenizer.
int token_of_line(const Texts& texts, const std::string& line, const std::string& place) {
  if (line.empty()) fail("{} empty line; a token expected", place);
  const bool has_tokenizer = !texts.piece(0).empty();
  if (has_tokenizer) return texts.token_of(line, place);
  const std::optional<std::size_t> id = parse_number<std::size_t>(line);
  if (!id || *id >= texts.model().vocabulary())
    fail("{} '{}': the model has no tokenizer; give the token's number, 0 to {}", place,
         render::visible(line), texts.model().vocabulary() - 1);
  return static_cast<int>(*id);
}

/// The tokens in a file with one line for each text.
std::vector<int> tokens_of_lines(const Texts& texts, const FollowedToken& token) {
  const std::vector<std::string> lines = texts_of({}, {token.path}, true);
  const std::string option = fmt::format("{}-file {}", token.option, io::shown(token.path));
  if (const std::size_t count = texts.lengths().size(); lines.size() != count)
    fail("{} has {} for {}: one line for each text expected, in order", option,
         counted(lines.size(), "lines"), counted(count, "texts"));
  std::vector<int> ids;
  for (const std::string& line : lines)
    ids.push_back(token_of_line(texts, line, fmt::format("{}, line {}:", option, ids.size() + 1)));
  return ids;
}

} // namespace

TokenOfTexts FollowedToken::ids(const Texts& texts) const {
  if (id && !word.empty())
    throw UsageError(fmt::format("{0} and {0}-id both name the token; give one of them", option));
  if (!path.empty() && (id || !word.empty()))
    throw UsageError(fmt::format("{0}-file names a token for each text; give it without {0}{1}",
                                 option, id ? "-id" : ""));
  if (!path.empty()) return TokenOfTexts(tokens_of_lines(texts, *this));
  if (id) {
    if (*id >= texts.model().vocabulary())
      fail("{}-id {}: the vocabulary has 0 to {}", option, *id, texts.model().vocabulary() - 1);
    return static_cast<int>(*id);
  }
  if (word.empty()) return {};
  return texts.token_of(word, option, fmt::format(", or give {}-id", option));
}

std::string FollowedToken::in_words() const {
  if (!path.empty()) return fmt::format("each text's token in {}", io::shown(path));
  if (id) return fmt::format("token {}", *id);
  return word.empty() ? std::string() : fmt::format("'{}'", render::visible(word));
}

std::pair<TokenOfTexts, TokenOfTexts> FollowedTokens::ids(const Texts& texts) const {
  std::pair ids{answer.ids(texts), versus.ids(texts)};
  if (!ids.first || !ids.second) return ids;
  for (std::size_t b = 0; b < texts.lengths().size(); ++b)
    if (const int one = *ids.first.of(b); one == *ids.second.of(b))
      fail("{}--answer and --versus are both '{}', so the difference of their logits is always 0",
           answer.path.empty() && versus.path.empty() ? "" : fmt::format("text {}: ", b),
           texts.plain(one));
  return ids;
}

std::string FollowedTokens::in_words(std::string by_default) const {
  const std::string named = answer.in_words(), other = versus.in_words();
  return (named.empty() ? std::move(by_default) : named) +
         (other.empty() ? "" : ", less that of " + other);
}

void add_followed_tokens(Cli& cli, FollowedTokens& tokens, std::string answer, std::string versus) {
  const auto add = [&](FollowedToken& token, std::string help) {
    cli.value(token.option, "TOKEN", token.word, std::move(help));
    cli.value(token.option + "-id", "N", token.id, "the token by its number");
    cli.value(token.option + "-file", "FILE", token.path,
              "one token for each text, from the lines of this file in order")
        .offers(Completes::files);
  };
  add(tokens.answer, std::move(answer));
  add(tokens.versus, std::move(versus));
}

} // namespace mha::app
