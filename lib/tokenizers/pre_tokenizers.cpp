#include <mha/tokenizers/pre_tokenizers.hpp>

#include <mha/tokenizers/byte_level.hpp>
#include <mha/tokenizers/split.hpp>
#include <mha/tokenizers/unicode.hpp>

#include <array>

namespace mha::tokenizers {

namespace {

enum class Prefix { never, first, always };

Prefix read_prefix(Fields& fields) {
  const auto scheme = fields.find("prepend_scheme"), older = fields.find("add_prefix_space");
  const bool wanted = !older || older->boolean("add_prefix_space");
  if (!scheme) return wanted ? Prefix::always : Prefix::never;
  const std::string name = scheme->text("prepend_scheme");
  if (name != "always" && name != "first" && name != "never")
    scheme->refuse("prepend_scheme must be \"always\", \"first\" or \"never\"");
  if (older && !wanted && name != "never")
    scheme->refuse("add_prefix_space is false, but prepend_scheme adds one");
  return name == "always" ? Prefix::always : name == "first" ? Prefix::first : Prefix::never;
}

AlignedText with_marks(const AlignedText& piece, const std::string& mark) {
  AlignedText result;
  result.begin = piece.begin;
  result.bytes.reserve(piece.bytes.size() * 2);
  for (std::size_t i = 0; i < piece.bytes.size(); ++i)
    if (piece.bytes[i] == ' ')
      result.put(mark, piece.from[i]);
    else
      result.keep(piece, i, i + 1);
  return result;
}

const Regex& words_of_gpt2() {
  static const Regex regex(
      R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)");
  return regex;
}

AlignedText in_bytes(const AlignedText& word) {
  AlignedText result;
  result.begin = word.begin;
  result.bytes.reserve(word.bytes.size() * 2);
  result.from.reserve(word.bytes.size() * 2);
  for (std::size_t i = 0; i < word.bytes.size(); ++i)
    result.put(character_of_byte(static_cast<unsigned char>(word.bytes[i])), word.from[i]);
  return result;
}

PreTokenizer pre_tokenizer_sequence(Fields& fields) {
  constexpr std::size_t most = 64; // each calls the next, so the stack limits their number
  const JsonNode list = fields.need("pretokenizers");
  PreTokenizer steps;
  list.each_element("pretokenizers", [&](const JsonNode& node) {
    for (PreTokenize& step : read_pre_tokenizer(node)) steps.push_back(std::move(step));
    if (steps.size() > most) list.refuse(fmt::format("more than {} pre-tokenizers", most));
  });
  return steps;
}

constexpr std::array<Kind<PreTokenizer>, 13> pre_tokenizer_kinds{{
    {"BertPreTokenizer", bert_words},
    {"ByteLevel", byte_level_words},
    {"CharDelimiterSplit", delimiter},
    {"Delimiter", delimiter},
    {"Digits", digits},
    {"FixedLength", fixed_length},
    {"Metaspace", metaspace},
    {"Punctuation", punctuation},
    {"Sequence", pre_tokenizer_sequence},
    {"Split", split},
    {"UnicodeScripts", unicode_scripts},
    {"Whitespace", whitespace},
    {"WhitespaceSplit", whitespace_split},
}};

} // namespace

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
  // Runs of word characters, and runs of characters that are neither that nor white space.
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
  if (length == 0) node->refuse("the length must not be 0");
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

PreTokenizer metaspace(Fields& fields) {
  const JsonNode node = fields.need("replacement");
  const std::string mark = node.text("the replacement");
  if (characters_in(mark) != 1) node.refuse("the replacement must be one character");
  const Prefix prefix = read_prefix(fields);
  const bool splits = fields.boolean("split", true);
  fields.ignore({"str_rep"});
  return {[=, pattern = pattern_of(mark)](AlignedText&& piece, const TakeText& take) {
    AlignedText text = with_marks(piece, mark);
    const bool wanted = prefix == Prefix::always || (prefix == Prefix::first && piece.begin == 0);
    if (wanted && !text.bytes.starts_with(mark)) text.prepend(mark);
    if (splits)
      split(text, pattern(text.bytes), Behavior::merged_with_next, take);
    else
      take(std::move(text));
  }};
}

PreTokenizer byte_level_words(bool add_prefix_space, bool use_regex) {
  return {[=](AlignedText&& piece, const TakeText& take) {
    if (add_prefix_space && !piece.bytes.starts_with(' ')) piece.prepend(" ");
    const auto take_bytes = [&](AlignedText&& word) {
      AlignedText bytes = in_bytes(word);
      bytes.check_growth();
      take(std::move(bytes));
    };
    if (use_regex)
      split(piece, words_of_gpt2().matches(piece.bytes), Behavior::isolated, take_bytes);
    else
      take_bytes(std::move(piece));
  }};
}

PreTokenizer byte_level_words(Fields& fields) {
  const bool prefix = fields.boolean("add_prefix_space", true);
  fields.ignore({"trim_offsets"}); // tokens cover the text here, blanks too
  return byte_level_words(prefix, fields.boolean("use_regex", true));
}

PreTokenizer read_pre_tokenizer(const JsonNode& node) {
  return read_kind<PreTokenizer>(node, "pre-tokenizer", pre_tokenizer_kinds);
}

} // namespace mha::tokenizers
