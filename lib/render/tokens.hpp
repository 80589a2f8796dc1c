#pragma once
// The tokens of texts as a table, CSV or JSON.

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

/// A row per token: its position, id, label and bytes; a table per text.
void write_tokens_table(const std::vector<TokenList>& texts, const TokenNames& names,
                        const TextStyle& text_style, const Sink& sink);
/// The same rows as csv or tsv.
void write_tokens_csv(const std::vector<TokenList>& texts, const TokenNames& names,
                      std::string_view form, const Sink& sink);
/// {"ids": […], "tokens": […], "pieces": […], "offsets": [[begin, end], …]}; of several texts a
/// list of these.
void write_tokens_json(const std::vector<TokenList>& texts, const TokenNames& names,
                       const Sink& sink);

} // namespace mha::render
