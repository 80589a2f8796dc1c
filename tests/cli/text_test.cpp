// A text instead of X, in every command that takes a layer.

#include "support/files.hpp"
#include "support/run.hpp"

#include <catch2/catch.hpp>

using namespace mha::test;

TEST_CASE("every command that takes a layer takes a text") {
  const Folder folder;
  const std::string text = "To be, or not to be";
  const auto works = [&](std::vector<std::string> arguments) {
    const Result result = run(arguments);
    std::string line;
    for (const std::string& word : arguments) line += " " + word;
    INFO("mha-inspect" << line << "\n" << result.err);
    CHECK(result.code == 0);
    return result;
  };
  for (const char* model : {"data/bard-llama", "data/bard-gpt2", "data/bard-bert"}) {
    works({"show", model, "--text", text});
    works({"show", model, "--text", text, "-s", "mlp_act", "--layer", "1", "-f", "csv"});
    works({"show", model, "--text", text, "-s", "embed,logits", "-f", "json"});
    works({"dump", model, "--text", text, "-o", folder.path("all.npz")});
    works({"dump", model, "--text", text, "-o", folder.path("l{layer}.safetensors")});
    works({"map", model, "--text", text, "--layer", "0", "-o", folder.path("maps.svg")});
    works({"report", model, "--text", text, "-o", folder.path("page.html")});
    works({"explain", model, "--text", text, "--layer", "1", "--head", "0", "--query", "3"});
    works({"stats", model, "--text", text});
    works({"bench", model, "--text", text, "--layer", "0", "--repeat", "2"});
    works({"diff", model, "--text", text, "--layer", "0", "--against", folder.path("all.npz")});
    works({"convert", model, "--text", text, "--layer", "2", "-o", folder.path("layer.npz")});
    works({"show", folder.path("layer.npz")});
  }
}

TEST_CASE("labels come from the tokenizer, and --tokens renames them") {
  const auto labels = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"show", "data/bard-llama", "--text", "not to be",
                                         "--layer", "0", "-s", "row_sum", "-f", "csv"});
    return run(arguments).out;
  };
  CHECK(labels({}).find(", to") != std::string::npos);
  CHECK(labels({"--tokens", "A B C D E F G H"}).find(", to") == std::string::npos);
}

TEST_CASE("stages of the model itself need no layer") {
  const Result logits = run({"show", "data/bard-gpt2", "--ids", "1,2,3", "-s", "logits", "--query",
                             "2", "-f", "csv", "--matrix"});
  CHECK(logits.code == 0);
  CHECK(std::count(logits.out.begin(), logits.out.end(), '\n') == 1);
  CHECK(std::count(logits.out.begin(), logits.out.end(), ',') == 1023);
  // A lone layer has none of them.
  CHECK(run({"show", "data/quickstart.json", "-s", "logits"}).code == 2);
}

TEST_CASE("a file of texts, whole or line by line") {
  const Folder folder;
  const std::string file = folder.write("texts.txt", "To be\nor not to be\n");
  const Result whole = run({"show", "data/bard-gpt2", "--text-file", file, "-s", "embed"});
  CHECK(whole.code == 0);
  const Result lines = run(
      {"predict", "data/bard-gpt2", "--text-file", file, "--each-line", "-f", "csv", "--top", "1"});
  CHECK(lines.code == 0);
  CHECK(std::count(lines.out.begin(), lines.out.end(), '\n') == 3);
}
