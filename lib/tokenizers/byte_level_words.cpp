// GPT-2's pre-tokenizer: words with the blank before them, written as bytes' characters.

#include <mha/tokenizers/byte_level.hpp>
#include <mha/tokenizers/pre_tokenizers.hpp>
#include <mha/tokenizers/split.hpp>

namespace mha::tokenizers {

namespace {

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

} // namespace

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

} // namespace mha::tokenizers
