// Tokens that the files beside a tokenizer name, as Transformers adds them.

#include "unit/formats/support.hpp"
#include "unit/tokenizers/support.hpp"

#include <catch2/catch.hpp>

using namespace mha;
using namespace mha::tokenizers;
using namespace mha::tokenizers::test;
using Catch::Matchers::Contains;
using Ids = std::vector<int>;

namespace {

/// A tokenizer of letters, and the files beside it.
struct Beside {
  io::test::Folder folder;
  Beside() {
    folder.file("tokenizer.json", R"({"added_tokens": [{"id": 4, "content": "<own>",
        "special": true}], "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "<": 2, "<in>": 3},
        "merges": [], "unk_token": "<"}})");
  }
  Tokenizer load() const { return load_tokenizer(folder.path()); }
};

} // namespace

TEST_CASE("added_tokens.json adds tokens with their numbers", "[tokenizers]") {
  const Beside beside;
  CHECK(ids(beside.load(), "a<tool>").size() > 2);
  beside.folder.file("added_tokens.json", R"({"<tool>": 7, "<other>": 5})");
  CHECK(ids(beside.load(), "a<tool>b<other><own>") == Ids{0, 7, 1, 5, 4});
  CHECK(beside.load().size() == 8);
  CHECK_FALSE(beside.load().is_special(7));
  // A special one is one that is named so.
  beside.folder.file("special_tokens_map.json", R"({"additional_special_tokens": ["<tool>"]})");
  CHECK(beside.load().is_special(7));
}

TEST_CASE("added_tokens_decoder adds tokens, and added_tokens.json is not read then",
          "[tokenizers]") {
  const Beside beside;
  beside.folder.file("added_tokens.json", R"({"<tool>": 7})");
  beside.folder.file("tokenizer_config.json", R"({"added_tokens_decoder": {
      "4": {"content": "<own>", "special": true},
      "6": {"content": "<t>", "lstrip": true, "rstrip": false, "normalized": false,
            "single_word": false, "special": true}}})");
  const Tokenizer tokenizer = beside.load();
  CHECK(ids(tokenizer, "a <t>b") == Ids{0, 6, 1});
  CHECK(tokenizer.is_special(6));
  CHECK_FALSE(tokenizer.id_of("<tool>"));
}

TEST_CASE(
    "special tokens that are named are recognised, with the number of their piece or the next",
    "[tokenizers]") {
  const Beside beside;
  beside.folder.file("tokenizer_config.json", R"({"pad_token": "<pad>", "eos_token": "<in>",
      "additional_special_tokens": ["<x>", {"content": "<y>", "rstrip": true}]})");
  const Tokenizer tokenizer = beside.load();
  CHECK(ids(tokenizer, "<in>a<pad><x>b<y> a") == Ids{3, 0, 5, 6, 1, 7, 0});
  for (const int id : {3, 5, 6, 7}) CHECK(tokenizer.is_special(id));
  CHECK(tokenizer.eos() == 3);
}

TEST_CASE("two tokens of one number are refused", "[tokenizers]") {
  const auto refused = [](const char* name, const std::string& text) {
    const Beside beside;
    beside.folder.file(name, text);
    try {
      beside.load();
      return std::string();
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  CHECK_THAT(refused("added_tokens.json", R"({"<t>": 4})"),
             Contains("gives the token '<t>' the number 4, which is that of '<own>'"));
  CHECK_THAT(refused("added_tokens.json", R"({"<t>": 1})"),
             Contains("the number 1, which is that of 'b'"));
  CHECK_THAT(refused("added_tokens.json", R"({"<in>": 9})"),
             Contains("gives the token '<in>' the number 9, which is 3 here"));
  CHECK_THAT(refused("added_tokens.json", R"({"<t>": 1.5})"), Contains("whole number"));
  CHECK_THAT(refused("added_tokens.json", R"({"<t>": 30, "<t>": 31})"),
             Contains("gives the token '<t>' the number 31, and before it 30"));
  CHECK_THAT(
      refused("tokenizer_config.json",
              R"({"added_tokens_decoder": {"30": {"content": "<t>"}, "31": {"content": "<t>"}}})"),
      Contains("gives the token '<t>' the number 31, and before it 30"));
  CHECK_THAT(refused("tokenizer_config.json", R"({"added_tokens_decoder": {"x": {}}})"),
             Contains("'x' is not a token's number"));
}
