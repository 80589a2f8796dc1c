// Pre-tokenizers that cut at a kind of character, at a pattern, or after a number of characters.

#include <mha/tokenizers/pre_tokenizers.hpp>
#include <mha/tokenizers/split.hpp>
#include <mha/tokenizers/unicode.hpp>

namespace mha::tokenizers {

PreTokenizer bert_words() {
  return {split_at(pattern_of(is_space), Behavior::removed),
          split_at(pattern_of(is_punctuation), Behavior::isolated)};
}

PreTokenizer bert_words(Fields&) {
  return bert_words();
}

PreTokenizer delimiter(Fields& fields) {
  const JsonNode node = fields.need("delimiter");
  const std::string text = node.text("the delimiter");
  if (characters_in(text) != 1) node.refuse("the delimiter must be one character");
  return {split_at(pattern_of(text), Behavior::removed)};
}

PreTokenizer digits(Fields& fields) {
  const bool each = fields.boolean("individual_digits", false);
  return {split_at(pattern_of(is_numeric), each ? Behavior::isolated : Behavior::contiguous)};
}

PreTokenizer punctuation(Fields& fields) {
  return {split_at(pattern_of(is_punctuation), read_behavior(fields, Behavior::isolated))};
}

PreTokenizer split(Fields& fields) {
  const Pattern pattern = read_pattern(fields.need("pattern"));
  const Behavior behavior = read_behavior(fields);
  return {split_at(pattern, behavior, fields.boolean("invert", false))};
}

PreTokenizer whitespace_split(Fields&) {
  return {split_at(pattern_of(is_space), Behavior::removed)};
}

PreTokenizer whitespace(Fields&) {
  // Runs of words' characters, and runs of what is neither that nor white space.
  const auto runs = [](std::string_view text) {
    const auto kind = [](char32_t c) { return is_space(c) ? 0 : is_word(c) ? 1 : 2; };
    std::vector<Match> list;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t first = at;
      const int of_first = kind(next_character(text, at));
      for (std::size_t next = at; next < text.size(); at = next)
        if (kind(next_character(text, next)) != of_first) break;
      list.push_back({first, at, of_first == 0});
    }
    return list;
  };
  return {split_at(runs, Behavior::removed)};
}

PreTokenizer fixed_length(Fields& fields) {
  const auto node = fields.find("length");
  const int length = node ? node->integer("the length", most_id) : 5;
  if (length == 0) node->refuse("a length of 0, into which nothing can be cut");
  const auto runs = [length](std::string_view text) {
    std::vector<Match> list;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t first = at;
      for (int i = 0; i < length && at < text.size(); ++i) at += length_of(text[at]);
      list.push_back({first, at, true});
    }
    return list;
  };
  return {split_at(runs, Behavior::isolated)};
}

} // namespace mha::tokenizers
