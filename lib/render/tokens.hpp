#pragma once
// The tokens of texts as text.

#include <mha/render/text.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace mha::render {

/// A token of a text: its id, and the bytes [begin, end) of the text that it covers; begin = end
/// for BOS and other tokens that the text does not hold.
struct TokenPlace {
  int id = 0;
  std::uint32_t begin = 0, end = 0;
};
using TokenList = std::vector<TokenPlace>;

/// The spellings of a token id: `label` for a table ("␣sun"), `text` (" sun"), and `piece` as in
/// the vocabulary ("Ġsun"; "" for an id without one). They are functions, because the spellings of
/// a long text take many times its bytes.
struct TokenNames {
  std::function<std::string(int)> label, text, piece;
};

/// One of `result_forms`: a row per token, for readers a table per text; as json {"ids": […],
/// "tokens": […], "pieces": […], "offsets": [[begin, end], …]}, of several texts a list of these.
void write_tokens(const std::vector<TokenList>& texts, const TokenNames& names,
                  std::string_view form, const TextStyle& text_style, const Sink& sink);

} // namespace mha::render
