// Every file of tests/broken/tokenizers is refused, in the words of tokenizers.txt.

#include "unit/formats/support.hpp"
#include "unit/tokenizers/support.hpp"

#include <catch2/catch.hpp>

#include <map>
#include <sstream>

using namespace mha;
using namespace mha::tokenizers;
using namespace mha::tokenizers::test;
using Catch::Matchers::Contains;

TEST_CASE("broken tokenizers are refused in one line that says where", "[tokenizers]") {
  const std::string folder = mha::test::source_folder() + "/tests/broken/tokenizers";
  std::map<std::string, std::string> messages;
  std::istringstream lines(io::test::contents_of(folder + ".txt"));
  for (std::string line; std::getline(lines, line);)
    messages[line.substr(0, line.find('\t'))] = line.substr(line.find('\t') + 1);
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    INFO(name);
    ++files;
    REQUIRE(messages.count(name) == 1);
    CHECK(refusal(io::test::contents_of(entry.path().string())) == "t.json: " + messages.at(name));
  }
  CHECK(files == messages.size());
}

TEST_CASE("folders without a tokenizer, and with another's, say what to do", "[tokenizers]") {
  const io::test::Folder folder;
  CHECK_FALSE(has_tokenizer(folder.path()));
  CHECK_THROWS_WITH(load_tokenizer(folder.path()), Contains("no tokenizer in this folder"));
  CHECK_THROWS_WITH(load_tokenizer(folder / "none"), Contains("no such folder"));
  folder.file("tokenizer.model", "x");
  CHECK_THROWS_WITH(load_tokenizer(folder.path()), Contains("only in tokenizer.model"));
  folder.file("vocab.json", R"({"a": 0})");
  folder.file("merges.txt", "#version: 0.2\na b\n");
  CHECK(has_tokenizer(folder.path()));
  CHECK_THROWS_WITH(load_tokenizer(folder.path()),
                    Contains("merges.txt: a merge of 'b', which is not in the vocabulary"));
  folder.file("merges.txt", "#version: 0.2\na b c\n");
  CHECK_THROWS_WITH(load_tokenizer(folder.path()), Contains("merges.txt: line 2: two pieces"));
  folder.file("tokenizer_config.json", R"({"tokenizer_class": "Qwen2Tokenizer"})");
  CHECK_THROWS_WITH(load_tokenizer(folder.path()),
                    Contains("the tokenizer of 'qwen2' has rules beyond its vocabulary"));
  folder.file("tokenizer.json/x", "");
  CHECK_THROWS_WITH(load_tokenizer(folder.path()), Contains("tokenizer.json: not a regular file"));
  const io::test::Folder twice;
  twice.file("vocab.txt", "[UNK]\na\na\n");
  CHECK(ids(load_tokenizer(twice.path()), "a") == std::vector<int>{2}); // the last line counts
}

TEST_CASE("an unknown token that the vocabulary lacks is missed where a character needs it",
          "[tokenizers]") {
  const Tokenizer tokenizer = read_tokenizer(
      "t.json",
      R"({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": [], "unk_token": "<unk>"}})");
  CHECK(ids(tokenizer, "aa") == std::vector<int>{0, 0});
  CHECK_THROWS_WITH(
      ids(tokenizer, "ab"),
      Contains("no token for 'b', and the unknown token '<unk>' is not in the vocabulary"));
}
