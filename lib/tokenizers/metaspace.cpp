// SentencePiece's blanks: written as ▁, which begins a word.

#include <mha/tokenizers/pre_tokenizers.hpp>
#include <mha/tokenizers/split.hpp>
#include <mha/tokenizers/unicode.hpp>

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
    scheme->refuse("add_prefix_space is false, and prepend_scheme says that there is one");
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

} // namespace

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

} // namespace mha::tokenizers
