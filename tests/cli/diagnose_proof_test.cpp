// What diagnose prints as proof is true: every command exits 0.

#include "support/run.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <sstream>

using namespace mha::test;
using Catch::Contains;
using nlohmann::json;

namespace {

/// The words after "See it: mha-inspect"; none where there is no such line.
std::vector<std::string> proof_in(const std::string& text) {
  const std::size_t at = text.find("See it: mha-inspect ");
  std::vector<std::string> words;
  if (at == std::string::npos) return words;
  std::istringstream line(text.substr(at + 20, text.find('\n', at) - at - 20));
  for (std::string word; line >> word;) words.push_back(word);
  return words;
}

struct ProofLayer {
  Folder folder;
  std::string path = folder.write("layer.json", small_layer_json());

  std::string reference(std::vector<std::string> options, const std::string& name) const {
    options.insert(options.begin(), {"dump", path, "--quiet", "-o", folder.path(name)});
    const Result result = run(options);
    INFO(result.err);
    REQUIRE(result.code == 0);
    return folder.path(name);
  }
};

} // namespace

TEST_CASE_METHOD(ProofLayer, "diagnose: every command that it prints exits 0") {
  const std::vector<std::vector<std::string>> mistakes{
      {"--scale", "1"},
      {"--scale", "d_model"},
      {"--scale", "0.3217"},
      {"--no-causal"},
      {"--no-causal", "--scale", "1"},
      {"--rope", "half"},
      {"--rope", "interleaved"},
      {"--alibi", "true"},
      {"--alibi", "mpt"},
      {"--window-left", "0"},
      {"--no-causal", "--window-left", "0"},
      {"--no-causal", "--window-right", "1"},
      {"--input-norm", "rms"},
      {"--input-norm", "layer"},
  };
  for (const std::vector<std::string>& options : mistakes)
    for (const char* file : {"ref.npz", "ref.json"}) {
      const std::string ref = reference(options, file);
      const Result text = run({"diagnose", path, "--against", ref});
      const std::vector<std::string> words = proof_in(text.out);
      std::string typed;
      for (const std::string& word : words) typed += word + " ";
      INFO(options[0] << " " << options.back() << "\n" << text.out);
      CHECK(text.code == 0);
      REQUIRE_FALSE(words.empty());
      INFO(typed);
      CHECK(run(words).code == 0);
    }
}

TEST_CASE_METHOD(ProofLayer,
                 "diagnose: what is typed besides a change stays, what it replaces goes") {
  const std::string ref = reference({"--rope", "half", "--scale", "1"}, "ref.npz");
  const Result text = run({"diagnose", path, "--rope", "half", "--scale", "0.3", "--against", ref});
  CHECK(text.code == 0);
  CHECK_THAT(text.out, Contains("scale."));
  const std::vector<std::string> words = proof_in(text.out);
  REQUIRE_FALSE(words.empty());
  CHECK(std::count(words.begin(), words.end(), "--scale") == 1);
  CHECK(std::count(words.begin(), words.end(), "0.3") == 0);
  CHECK(run(words).code == 0);
}

TEST_CASE_METHOD(ProofLayer, "diagnose: a file whose name has a space is proof, too") {
  std::filesystem::create_directory(folder.path("a b"));
  const std::string spaced = folder.write("a b/layer.json", small_layer_json());
  const std::string turned = reference({"W_v=" + path + ":W_v@OI"}, "ref.npz");
  const Result text = run({"diagnose", spaced, "--against", turned});
  INFO(text.out);
  const std::string see = "See it: mha-inspect ";
  const std::size_t at = text.out.find(see);
  REQUIRE(at != std::string::npos);
  CHECK(shell("\"$MHA\" " + text.out.substr(at + see.size())).code == 0);
}

TEST_CASE("diagnose: a scale that the logits alone show is an option with its number") {
  const Folder folder;
  const std::vector<std::string> text{"data/bard-llama", "--ids", "65,30,12,7,81,9,22,13"};
  const auto with = [&](const std::string& command, std::vector<std::string> more) {
    more.insert(more.begin(), text.begin(), text.end());
    more.insert(more.begin(), command);
    return run(more);
  };
  const std::string saved = folder.path("logits.npz");
  REQUIRE(with("dump", {"--scale", "0.1", "-s", "logits", "-q", "-o", saved}).code == 0);
  const Result found = with("diagnose", {"--against", saved, "--format", "json"});
  INFO(found.out << found.err);
  CHECK(json::parse(found.out)["changes"][0]["option"] == "--scale 0.1");
}

TEST_CASE("diagnose: a reference that is another layer's is told so") {
  const Result text =
      run({"diagnose", "data/induction", "--layer", "1", "X=data/induction/hidden.npz:layers.0",
           "--quiet", "--against", "data/induction/expected/layer0.npz"});
  CHECK(text.code == 1);
  CHECK_THAT(text.out, Contains("What the numbers show: the reference's q is that of layer 0"));
}

TEST_CASE("diagnose: every layer of a text is explained by itself, with batches and some layers") {
  const struct {
    const char *model, *layers;
    std::vector<std::string> change;
    const char* found;
  } models[]{
      {"data/bard-llama", "", {"--rope", "interleaved"}, "rope.style"},
      {"data/bard-llama", "0-2", {"--rope", "interleaved"}, "rope.style"},
      {"data/bard-gpt2", "", {"--scale", "0.5"}, "scale."},
      {"data/bard-bert", "", {"--causal"}, "causal."},
  };
  for (const auto& [model, layers, change, found] : models)
    for (const bool batch : {false, true}) {
      const Folder folder;
      const std::string ref = folder.path("ref.npz");
      std::vector<std::string> text{model, "--text", "To be, or not to be"};
      if (batch) text.insert(text.end(), {"--text", "That is"});
      std::vector<std::string> dump{"dump"}, diagnose{"diagnose"};
      dump.insert(dump.end(), text.begin(), text.end());
      dump.insert(dump.end(), change.begin(), change.end());
      dump.insert(dump.end(), {"-q", "-o", ref});
      REQUIRE(run(dump).code == 0);
      diagnose.insert(diagnose.end(), text.begin(), text.end());
      if (*layers) diagnose.insert(diagnose.end(), {"--layer", layers});
      diagnose.insert(diagnose.end(), {"-q", "--against", ref});
      const Result result = run(diagnose);
      INFO(model << " " << layers << "\n" << result.out << result.err);
      // The model's end follows from the layer that was not asked for.
      CHECK(result.code == (*layers ? 1 : 0));
      CHECK_THAT(result.out, Contains(found) && Contains("layers 0–"));
    }
}
