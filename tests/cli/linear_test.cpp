// Inputs of which a square would be minutes (tests/bench/texts.py times them); heads of a text's
// layers without --layer.

#include "support/run.hpp"
#include "support/sanitizers.hpp"

#include <catch2/catch.hpp>
#include <fmt/format.h>

using namespace mha::test;

namespace {

std::string lines(std::size_t count) {
  std::string text;
  for (std::size_t n = 0; n < count; ++n) text += n % 2 == 0 ? "to be\n" : "or not\n";
  return text;
}

} // namespace

TEST_CASE("many texts: each has its row") {
  const Folder folder;
  const std::size_t count = sanitized ? 2000 : 15'000;
  const std::string path = folder.write("lines", lines(count));
  const Result result = shell("\"$MHA\" predict data/bard-llama --threads 1 -f csv --each-line "
                              "--text-file " +
                              path + " | wc -l");
  INFO(result.err);
  REQUIRE(result.code == 0);
  CHECK(std::stoul(result.out) > count);
}

TEST_CASE("a list of tokens is written as it is made") {
  if (sanitized) return; // whose own memory is more
  const Folder folder;
  const std::string path = folder.write("text", lines(400'000)); // 2.6 MB, 2 million tokens
  // What is kept of a token: 12 bytes for its place, and as many while the text is cut.
  for (const std::string form : {"csv", "json"}) {
    const Result result = shell(
        fmt::format("ulimit -v {}; \"$MHA\" tokens data/bard-llama -f {} --text-file {} -o {}",
                    192 << 10, form, path, folder.path("tokens." + form)));
    INFO(form << "\n" << result.err);
    CHECK(result.code == 0);
  }
}

TEST_CASE("blanks before an added token that takes them are no tokens") {
  const Folder folder;
  folder.write("tokenizer.json", R"({"added_tokens": [
      {"id": 1, "content": "<m>", "lstrip": true, "rstrip": true, "special": true},
      {"id": 2, "content": " x", "lstrip": true, "single_word": true, "normalized": true}],
      "model": {"type": "WordLevel", "vocab": {"?": 0, "a": 3}, "unk_token": "?"},
      "pre_tokenizer": {"type": "WhitespaceSplit"}})");
  const std::string blanks(100'000, ' ');
  std::string words;
  for (int n = 0; n < 2000; ++n) words += std::string(50, ' ') + " xy";
  // Text, and how many tokens it has.
  const std::pair<std::string, std::size_t> texts[]{
      {blanks + "<m>" + blanks, 1}, {words, 2000}, {blanks + " x" + blanks + "<m>", 2}};
  for (const auto& [text, tokens] : texts) {
    const std::string path = folder.write("text", text);
    const Result result = shell(
        fmt::format("\"$MHA\" tokens '{}' -f csv --text-file '{}' | wc -l", folder.path(), path));
    INFO(result.err);
    CHECK(std::stoul(result.out) == tokens + 1);
  }
}

TEST_CASE("a head of every layer of a text, without --layer") {
  const Folder folder;
  for (const std::string command : {"show", "dump -o OUT.npz"})
    for (const std::string model : {"bard-llama", "bard-gpt2", "bard-bert"}) {
      std::string words = command;
      if (const std::size_t at = words.find("OUT"); at != std::string::npos)
        words.replace(at, 3, folder.path("r"));
      const Result result =
          shell(fmt::format("\"$MHA\" {} data/{} --text 'to be' --head 0 -q", words, model));
      INFO(words << " " << model << "\n" << result.err);
      CHECK(result.code == 0);
      CHECK((command != "show" || result.out.find("layer 3") != std::string::npos));
    }
}
