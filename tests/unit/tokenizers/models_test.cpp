#include "support/files.hpp"
#include "unit/formats/support.hpp"
#include "unit/tokenizers/support.hpp"

#include <catch2/catch.hpp>

using namespace mha;
using namespace mha::tokenizers;
using namespace mha::tokenizers::test;
using Catch::Matchers::Contains;

TEST_CASE("the trained models' texts have the numbers that PyTorch was given", "[tokenizers]") {
  for (const std::string model_name : {"bard-gpt2", "bard-llama", "bard-bert", "induction-model"}) {
    const std::string folder = in_source("data/" + model_name + "/expected/");
    const Tokenizer tokenizer = model(model_name);
    int texts = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (entry.path().extension() != ".txt") continue;
      std::filesystem::path numbers = entry.path();
      const Tensor expected =
          tensor_in(io::open(numbers.replace_extension(".npz").string()), "ids");
      const std::string text = io::test::contents_of(entry.path().string());
      const std::vector<int> got = ids(tokenizer, text);
      INFO(entry.path());
      REQUIRE(got.size() == expected.count());
      for (std::size_t i = 0; i < got.size(); ++i) CHECK(got[i] == value_at(expected, i));
      ++texts;
    }
    CHECK(texts > 0);
  }
}

TEST_CASE("GPT-2's two files and BERT's list cut as tokenizer.json does", "[tokenizers]") {
  const std::string text =
      "Shall I compare thee to a summer's day? naïve 😀  \n 42 <|endoftext|> [MASK]x";
  for (const std::string name : {"bard-gpt2", "bard-bert"}) {
    const io::test::Folder folder;
    for (const char* file : {"vocab.json", "merges.txt", "vocab.txt"})
      if (std::filesystem::exists(in_source("data/" + name + "/" + file)))
        folder.file(file, io::test::contents_of(in_source("data/" + name + "/" + file)));
    CHECK(ids(load_tokenizer(folder.path()), text) == ids(model(name), text));
  }
}

TEST_CASE("every byte of the text belongs to a token's part", "[tokenizers]") {
  CHECK(parts(model("bard-llama"), "To be 😀!") ==
        std::vector<std::string>{"", "To", " be", " ", "😀", "😀", "😀", "😀", "!"});
  CHECK(parts(model("bard-bert"), "The Café") ==
        std::vector<std::string>{"", "The", "C", "a", "fé", ""});
}

TEST_CASE("special tokens in the text are recognised, also inside words", "[tokenizers]") {
  CHECK(pieces(model("bard-llama"), "a<|end_of_text|>b") ==
        std::vector<std::string>{"<|begin_of_text|>", "a", "<|end_of_text|>", "b"});
  CHECK(pieces(model("induction-model"), "t1 <s>t2 t99") ==
        std::vector<std::string>{"<s>", "t1", "<s>", "t2", "<s>"});
}

TEST_CASE("special tokens around the text follow the post-processor, the config and the caller",
          "[tokenizers]") {
  const Tokenizer llama = model("bard-llama");
  CHECK(ids(llama, "To").size() == 2);
  CHECK(ids(llama, "To", {.none = true}).size() == 1);
  CHECK(ids(llama, "To", {.bos = false}).size() == 1);
  CHECK(ids(llama, "To", {.bos = true}).size() == 2);
  const Tokenizer gpt2 = model("bard-gpt2");
  CHECK(ids(gpt2, "To").size() == 1);
  CHECK(ids(gpt2, "To", {.bos = true}).front() == 0); // config.json's bos_token_id
  CHECK(llama.bos() == 0);
  CHECK(llama.eos() == 1);
  CHECK(model("bard-bert").mask() == 4);

  const io::test::Folder folder;
  folder.file("tokenizer.json", io::test::contents_of(in_source("data/bard-llama/tokenizer.json")));
  folder.file("tokenizer_config.json", R"({"add_bos_token": false, "add_eos_token": true,
      "bos_token": "<|begin_of_text|>", "eos_token": {"content": "<|end_of_text|>"}})");
  CHECK(pieces(load_tokenizer(folder.path()), "To") ==
        std::vector<std::string>{"To", "<|end_of_text|>"});
  folder.file("tokenizer_config.json", R"({"add_bos_token": true})");
  CHECK_THROWS_WITH(load_tokenizer(folder.path()), Contains("no bos_token is named"));
}

TEST_CASE("labels are what a token means to a human", "[tokenizers]") {
  const Tokenizer llama = model("bard-llama"), bert = model("bard-bert");
  CHECK(llama.label(*llama.id_of("Ġbe")) == "␣be");
  CHECK(llama.label(*llama.id_of("Ċ")) == "⏎");
  CHECK(llama.label(*llama.id_of("ð")) == "<0xF0>");
  CHECK(llama.label(*llama.id_of("ĉ")) == "\\t");
  CHECK(llama.label(0) == "<|begin_of_text|>");
  CHECK(llama.label(4000) == "<no token 4000>");
  CHECK(bert.label(*bert.id_of("##s")) == "s");
  CHECK(llama.piece_of(310) == "Ġbe");
  CHECK(llama.size() == 1024);
  CHECK(llama.is_special(0));
  CHECK_FALSE(llama.is_special(310));
}

TEST_CASE("what is no UTF-8 is read as U+FFFD, with a note", "[tokenizers]") {
  const Encoding encoding = model("bard-llama").encode("To\xe2\x82 be\xff");
  REQUIRE(encoding.notes.size() == 1);
  CHECK_THAT(encoding.notes[0], Contains("2 byte sequences of the text are not UTF-8"));
  CHECK(encoding.tokens.back().end == 8);
  CHECK(model("bard-llama").encode("To be").notes.empty());
}

TEST_CASE("one long word takes no time", "[tokenizers]") {
  // Quadratic merging would take minutes.
  for (const char* name : {"bard-gpt2", "bard-bert"}) {
    std::string text(300'000, 'a');
    CHECK(model(name).encode(text).tokens.back().end == text.size());
    for (std::size_t i = 0; i < text.size(); ++i) text[i] = "the "[i % 3];
    CHECK(model(name).encode(text).tokens.back().end == text.size());
    CHECK(model(name).encode(std::string(300'000, ' ')).tokens.size() <= 300'000);
  }
}

TEST_CASE("BPE's options", "[tokenizers]") {
  const auto cut = [](const std::string& options, std::string_view text) {
    return pieces(read_tokenizer("t.json", R"({"model": {"type": "BPE", "vocab": {"?": 0, "a": 1,
        "b": 2, "ab": 3, "abb": 4, "##b": 5, "b#": 6, "<0xC3>": 7, "<0xA9>": 8, "ab#": 9, "ba": 10},
        "merges": [["a", "b"], "ab b"], )" + options +
                                               "}}"),
                  text);
  };
  using Pieces = std::vector<std::string>;
  CHECK(cut(R"("dropout": null)", "abbab") == Pieces{"abb", "ab"});
  // Without an unknown token, what is unknown vanishes, and what stood around it meets.
  CHECK(cut(R"("dropout": 0.0)", "axb") == Pieces{"ab"});
  CHECK(cut(R"("unk_token": "?")", "axyb") == Pieces{"a", "?", "?", "b"});
  CHECK(cut(R"("unk_token": "?", "fuse_unk": true)", "axyb") == Pieces{"a", "?", "b"});
  CHECK(cut(R"("unk_token": "?", "byte_fallback": true)", "aéx") ==
        Pieces{"a", "<0xC3>", "<0xA9>", "?"});
  CHECK(cut(R"("ignore_merges": true)", "ba") == Pieces{"ba"});
  CHECK(cut(R"("ignore_merges": false)", "ba") == Pieces{"b", "a"});
  CHECK(cut(R"("end_of_word_suffix": "#")", "ab") == Pieces{"a", "b#"});
}

TEST_CASE("Unigram takes the likeliest way", "[tokenizers]") {
  const Tokenizer tokenizer = read_tokenizer("t.json", R"({"model": {"type": "Unigram", "unk_id": 0,
      "vocab": [["<unk>", 0], ["a", 0], ["b", 0], ["c", 0], ["d", 0], ["cd", 1], ["ab", 2],
                ["abc", 5], ["abcd", 10]]}})");
  CHECK(ids(tokenizer, "abcdacdxx") == std::vector<int>{8, 1, 5, 0});
  CHECK(parts(tokenizer, "abcdacdxx") == std::vector<std::string>{"abcd", "a", "cd", "xx"});
}
