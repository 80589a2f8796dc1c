// GPT-2's pre-tokenizer: words with the blank before them, written as bytes' characters.

#include <mha/load/tokenizers/byte_level.hpp>
#include <mha/load/tokenizers/pre_tokenizers.hpp>
#include <mha/load/tokenizers/split.hpp>

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

PreTokenizer byte_level_words(bool prefix_blank, bool use_regex) {
  return each_piece([=](AlignedText&& piece, std::vector<AlignedText>& result) {
    if (prefix_blank && !piece.bytes.starts_with(' ')) piece.prepend(" ");
    std::vector<AlignedText> words;
    if (use_regex)
      split(piece, words_of_gpt2().matches(piece.bytes), Behavior::isolated, words);
    else
      words.push_back(std::move(piece));
    for (const AlignedText& word : words) {
      result.push_back(in_bytes(word));
      result.back().check_growth();
    }
  });
}

PreTokenizer byte_level_words(Fields& fields) {
  const bool prefix = fields.boolean("add_prefix_space", true);
  fields.ignore({"trim_offsets"}); // tokens cover the text here, blanks too
  return byte_level_words(prefix, fields.boolean("use_regex", true));
}

} // namespace mha::tokenizers
