// Bad models and texts: every command line of tests/broken/models.txt is refused with exactly the
// line beside it, and so are checkpoints with one defect, made here.

#include "support/files.hpp"
#include "support/run.hpp"

#include <catch2/catch.hpp>

#include <fstream>

using namespace mha::test;

TEST_CASE("bad models and texts: each is refused in one line", "[model]") {
  std::ifstream file(in_source("tests/broken/models.txt"));
  std::size_t count = 0;
  for (std::string line; std::getline(file, line);) {
    const std::size_t tab = line.find('\t');
    REQUIRE(tab != std::string::npos);
    const Result result = shell("\"$MHA\" " + line.substr(0, tab));
    INFO("mha-inspect " << line.substr(0, tab));
    CHECK(result.code == 2);
    CHECK(result.out.empty());
    CHECK(result.err == "mha-inspect: " + line.substr(tab + 1) + "\n");
    ++count;
  }
  CHECK(count >= 12);
}

TEST_CASE("a config that contradicts the tensors, and one of no known model, are said", "[model]") {
  const Folder folder;
  const auto with_config = [&](const std::string& from, const std::string& to) {
    const Result made =
        shell("mkdir -p '" + folder.path("m") +
              "' && cp data/bard-llama/model.safetensors "
              "data/bard-llama/tokenizer.json '" +
              folder.path("m") + "' && sed 's/" + from + "/" + to +
              "/' data/bard-llama/config.json > '" + folder.path("m/config.json") + "'");
    REQUIRE(made.code == 0);
    return run({"predict", folder.path("m"), "--ids", "1,2"}).err;
  };
  CHECK(with_config("\"num_hidden_layers\": 4", "\"num_hidden_layers\": 6")
            .find("config.json has num_hidden_layers 6, but the tensors have 4 layers") !=
        std::string::npos);
  CHECK(with_config("\"vocab_size\": 1024", "\"vocab_size\": 1000").find("vocab_size 1000") !=
        std::string::npos);
  CHECK(with_config("\"model_type\": \"llama\"", "\"model_type\": \"granitemoe\"")
            .find("model_type 'granitemoe' is a mixture of experts, but no layer has a router") !=
        std::string::npos);
  // A key that no family computes is refused by its name; one that another family has is reported.
  const auto with_key = [&](const std::string& key) {
    return with_config("\"vocab_size\"", key + ", \"vocab_size\"");
  };
  CHECK(with_key("\"use_mrope\": true")
            .find("config.json: use_mrope is true, which is not computed here: false expected") !=
        std::string::npos);
  CHECK(with_key("\"use_mrope\": false").empty());
  CHECK(with_key("\"full_attn_mod\": 2").find("full_attn_mod is 2") != std::string::npos);
  CHECK(with_key("\"clip_qkv\": 4").find("not read here: clip_qkv 4") != std::string::npos);
  CHECK(with_config("\"silu\"", "\"xielu\"").find("hidden_act is 'xielu'") != std::string::npos);
}
