#pragma once
// The tokens of texts as a table, CSV or JSON.

#include <mha/render/text.hpp>

#include <string>
#include <vector>

namespace mha::render {

struct TokenRow {
  int id = 0;
  /// As the vocabulary writes it, for eyes, and the text it stands for.
  std::string piece, label, text;
  std::size_t begin = 0, end = 0; ///< bytes of the text
};
using TokenList = std::vector<TokenRow>;

std::string tokens_table(const std::vector<TokenList>& texts, const TextStyle& look);
std::string tokens_csv(const std::vector<TokenList>& texts, char separator);
/// {"ids": […], "tokens": […], "pieces": […], "offsets": [[begin, end], …]}; of several texts a
/// list of these.
std::string tokens_json(const std::vector<TokenList>& texts);

} // namespace mha::render
