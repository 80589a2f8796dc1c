// Tokens of many texts, for comparing with other implementations: tokenizer-lines FOLDER
// [--no-special]. Each line of standard input is a text as a JSON string; for each a line of JSON
// is printed: {"ids": […], "begin": […], "end": […], "pieces": […]}, or {"error": "…"}.

#include <mha/system/error.hpp>
#include <mha/tokenizers/tokenizer.hpp>

#include <iostream>
#include <string>

#include <nlohmann/json.hpp>

namespace {

using nlohmann::json;

json answer(const mha::tokenizers::Tokenizer& tokenizer, const std::string& text,
            mha::tokenizers::SpecialTokens special) {
  json ids = json::array(), begin = ids, end = ids, pieces = ids;
  try {
    for (const auto& token : tokenizer.encode(text, special).tokens) {
      ids.push_back(token.id);
      begin.push_back(token.begin);
      end.push_back(token.end);
      pieces.push_back(tokenizer.piece_of(token.id).value_or(""));
    }
  } catch (const mha::Error& error) {
    return {{"error", error.what()}};
  }
  return {{"ids", ids}, {"begin", begin}, {"end", end}, {"pieces", pieces}};
}

} // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  mha::tokenizers::SpecialTokens special;
  special.none = argc > 2 && std::string(argv[2]) == "--no-special";
  try {
    const auto tokenizer = mha::tokenizers::load_tokenizer(argv[1]);
    for (std::string line; std::getline(std::cin, line);)
      std::cout << answer(tokenizer, json::parse(line).get<std::string>(), special).dump() << "\n";
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 2;
  }
}
