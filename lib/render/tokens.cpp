#include <mha/render/tokens.hpp>

#include <mha/render/grid.hpp>
#include <mha/render/numbers.hpp>

#include <fmt/format.h>

namespace mha::render {

std::string tokens_table(const std::vector<TokenList>& texts, const TextStyle& look) {
  std::string out;
  for (const TokenList& list : texts) {
    Grid grid({{"", true}, {"token"}, {"id", true}, {"bytes"}, {"piece", false, true, true}});
    for (std::size_t i = 0; i < list.size(); ++i) {
      const TokenRow& row = list[i];
      grid.add({fmt::format("{}", i), visible(row.label), fmt::format("{}", row.id),
                row.begin == row.end ? "–" : fmt::format("{}–{}", row.begin, row.end),
                row.piece == row.label ? "" : visible(row.piece)});
    }
    out += (out.empty() ? "" : "\n") + grid.text(look);
  }
  return out;
}

std::string tokens_csv(const std::vector<TokenList>& texts, char separator) {
  const auto field = [&](const std::string& text) {
    return separator == '\t' ? tsv_field(text) : csv_field(text);
  };
  std::string out = fmt::format("text{0}position{0}id{0}token{0}piece{0}begin{0}end\n", separator);
  for (std::size_t t = 0; t < texts.size(); ++t)
    for (std::size_t i = 0; i < texts[t].size(); ++i) {
      const TokenRow& row = texts[t][i];
      out += fmt::format("{1}{0}{2}{0}{3}{0}{4}{0}{5}{0}{6}{0}{7}\n", separator, t, i, row.id,
                         field(row.text), field(row.piece), row.begin, row.end);
    }
  return out;
}

std::string tokens_json(const std::vector<TokenList>& texts) {
  std::string all;
  for (const TokenList& list : texts) {
    std::string ids, tokens, pieces, offsets;
    for (const TokenRow& row : list) {
      const char* comma = ids.empty() ? "" : ", ";
      ids += fmt::format("{}{}", comma, row.id);
      tokens += comma + json_quoted(row.text);
      pieces += comma + json_quoted(row.piece);
      offsets += fmt::format("{}[{}, {}]", comma, row.begin, row.end);
    }
    all += fmt::format("{}{{\"ids\": [{}], \"tokens\": [{}], \"pieces\": [{}], \"offsets\": [{}]}}",
                       all.empty() ? "" : ",\n ", ids, tokens, pieces, offsets);
  }
  return texts.size() == 1 ? all + "\n" : "[" + all + "]\n";
}

} // namespace mha::render
