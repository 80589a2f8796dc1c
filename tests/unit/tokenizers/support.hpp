#pragma once
// What the tests of tokenizers share.

#include "support/places.hpp"
#include <mha/tokenizers/tokenizer.hpp>

#include <mha/system/error.hpp>

#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <vector>

namespace mha::tokenizers::test {

inline Tokenizer model(const std::string& name) {
  return load_tokenizer(mha::test::source_folder() + "/data/" + name);
}

inline std::vector<int> ids(const Tokenizer& tokenizer, std::string_view text,
                            SpecialTokens special = {}) {
  return tokenizer.encode(text, special).ids();
}

/// The text's parts that the tokens stand for.
inline std::vector<std::string> parts(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<std::string> list;
  for (const Token& token : tokenizer.encode(text).tokens)
    list.emplace_back(text.substr(token.begin, token.end - token.begin));
  return list;
}

inline std::vector<std::string> pieces(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<std::string> list;
  for (const Token& token : tokenizer.encode(text).tokens)
    list.push_back(tokenizer.piece_of(token.id).value_or(""));
  return list;
}

/// A tokenizer whose every word is unknown: the tokens' places tell where it cuts.
inline Tokenizer cutting(const std::string& pre_tokenizer, const std::string& added = "") {
  return read_tokenizer("t.json", fmt::format(R"({{"added_tokens": [{}], "pre_tokenizer": {},
      "model": {{"type": "WordLevel", "vocab": {{"?": 0}}, "unk_token": "?"}}}})",
                                              added, pre_tokenizer));
}

/// A tokenizer of single bytes: the pieces tell what a normalizer made of a text.
inline std::string normalized(const std::string& normalizer, std::string_view text) {
  std::string vocab;
  for (int byte = 0; byte < 256; ++byte)
    vocab += fmt::format("{}\"<0x{:02X}>\": {}", byte ? ", " : "", byte, byte);
  const Tokenizer tokenizer =
      read_tokenizer("t.json", fmt::format(R"({{"normalizer": {}, "model": {{"type": "BPE",
      "byte_fallback": true, "vocab": {{{}}}, "merges": []}}}})",
                                           normalizer, vocab));
  std::string result;
  for (const int id : ids(tokenizer, text)) result += static_cast<char>(id);
  return result;
}

/// The message with which a tokenizer.json is refused, or "" where it is not.
inline std::string refusal(const std::string& json) {
  try {
    read_tokenizer("t.json", json);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

} // namespace mha::tokenizers::test
