#pragma once
// The tokens of texts as a table, CSV or JSON.

#include <mha/render/text.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace mha::render {

/// A token of a text, and the bytes that it stands for.
struct TokenPlace {
  int id = 0;
  std::uint32_t begin = 0, end = 0;
};
using TokenList = std::vector<TokenPlace>;

/// A token by its number: for eyes ("␣sun"), as text (" sun"), and as the vocabulary has it
/// ("Ġsun";
/// "" where there is none). Rows ask one by one: the words of a long text take many times its
/// bytes.
struct TokenNames {
  std::function<std::string(int)> label, text, piece;
};

void write_tokens_table(const std::vector<TokenList>& texts, const TokenNames& names,
                        const TextStyle& look, const Sink& sink);
void write_tokens_csv(const std::vector<TokenList>& texts, const TokenNames& names, char separator,
                      const Sink& sink);
/// {"ids": […], "tokens": […], "pieces": […], "offsets": [[begin, end], …]}; of several texts a
/// list of these.
void write_tokens_json(const std::vector<TokenList>& texts, const TokenNames& names,
                       const Sink& sink);

} // namespace mha::render
