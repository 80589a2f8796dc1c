// Where results go: through /proc and /dev to files, beside the files of a checkpoint, and of a
// whole model's run with a selection.

#include "support/files.hpp"
#include "support/run.hpp"

#include <catch2/catch.hpp>

#include <algorithm>

using namespace mha;
using namespace mha::test;
using Catch::Contains;

namespace {

/// A copy of a trained model that may be written to.
struct Model {
  Folder folder;
  std::string path = folder.path("model");
  explicit Model(const std::string& name = "bard-gpt2") {
    REQUIRE(shell("cp -r data/" + name + " '" + path + "'").code == 0);
  }
  std::string bytes(const std::string& name) const { return folder.read("model/" + name); }
};

} // namespace

TEST_CASE("output: a file that /proc or /dev leads to is replaced whole") {
  const Folder folder;
  folder.write("layer.json", small_layer_json());
  const std::string dump = "\"$MHA\" dump layer.json -q -f npz -o ";
  const Setting there{.folder = folder.path()};
  REQUIRE(shell(dump + "right.npz", there).code == 0);
  const std::string right = folder.read("right.npz"), longer(right.size() + 100'000, 'x');
  // By the working folder, by a number, by its process, and where nothing was there.
  for (const std::string& line :
       {dump + "/proc/self/cwd/old.npz", dump + "/proc/self/fd/3 3<>old.npz",
        dump + "/dev/fd/3 3<>old.npz", dump + "/proc/self/fd/3 3<old.npz",
        dump + "/proc/thread-self/fd/3 3<>old.npz", dump + "/proc/self/root\"$PWD\"/old.npz",
        "rm old.npz; " + dump + "/proc/self/cwd/old.npz"}) {
    folder.write("old.npz", longer);
    const Result result = shell(line, there);
    INFO(line << "\n" << result.err);
    CHECK(result.code == 0);
    CHECK(folder.read("old.npz") == right);
    CHECK(folder.names().size() == 3);
  }
  // A file without a name has no place to be renamed to.
  folder.write("old.npz", longer);
  const Result gone = shell(
      "exec 3<>old.npz; rm old.npz; " + dump + "/proc/self/fd/3 && cat <&3 > kept.npz", there);
  INFO(gone.err);
  CHECK(gone.code == 0);
  CHECK(folder.read("kept.npz").size() == right.size());
  CHECK_FALSE(folder.has("old.npz (deleted)"));
}

TEST_CASE("output: what belongs to a checkpoint that is read is not replaced, read or not") {
  const Model model;
  for (const std::string name :
       {"model.safetensors", "config.json", "tokenizer.json", "vocab.json", "merges.txt"}) {
    const std::string before = model.bytes(name);
    for (const std::string& to : {model.path + "/" + name, model.folder.path("link-" + name)}) {
      if (to.find("link-") != std::string::npos)
        std::filesystem::create_symlink("model/" + name, to);
      const Result result = run({"tokens", model.path, "--text", "be", "-f", "json", "-o", to});
      INFO(to << result.err);
      CHECK(result.code == 2);
      CHECK(one_line(result.err));
      CHECK_THAT(result.err, Contains("give --output another name"));
      CHECK(model.bytes(name) == before);
    }
  }
}

TEST_CASE(
    "output: nothing that would be read with a checkpoint or a folder of .npy is put into it") {
  const Model model;
  const std::vector<std::string> dump{"dump", model.path, "--ids", "1,2", "-q", "-o"};
  for (const std::string name :
       {"/new.safetensors", "/model.safetensors.index.json", "", "/", "/adapter_model.bin"}) {
    std::vector<std::string> words = dump;
    words.push_back(model.path + name);
    if (name.ends_with("json") || name.ends_with("bin")) words.insert(words.end(), {"-f", "json"});
    const Result result = run(words);
    INFO(name << result.err);
    CHECK(result.code == 2);
    CHECK(one_line(result.err));
  }
  // What is no part of it may be there, and the model is read as before.
  std::vector<std::string> words = dump;
  words.push_back(model.path + "/stages.npz");
  CHECK(run(words).code == 0);
  CHECK(run(words).code == 0);
  CHECK(run({"predict", model.path, "--ids", "1,2"}).out ==
        run({"predict", "data/bard-gpt2", "--ids", "1,2"}).out);

  const Folder folder;
  const std::string layer = folder.path("layer");
  REQUIRE(run({"convert", "data/quickstart.json", "-q", "-o", layer}).code == 0);
  for (const std::string name : {"/weights.npy", "/weights.safetensors"}) {
    const Result result = run({"dump", layer, "-s", "weights", "-q", "-o", layer + name});
    INFO(name << result.err);
    CHECK(result.code == 2);
    CHECK_THAT(result.err, Contains("would be read with the files of"));
  }
  CHECK(run({"dump", layer, "-s", "weights", "-q", "-o", layer + "/weights.npz"}).code == 0);
  CHECK(run({"show", layer, "-s", "output"}).code == 0);
}

TEST_CASE("output: a selection of heads and keys is the layers', the model's ends are whole") {
  for (const std::string model : {"data/bard-gpt2", "data/bard-bert"}) {
    const Folder folder;
    const std::string path = folder.path("all.npz");
    const std::vector<std::string> source{model, "--ids", "5,6,7", "-q"};
    const auto with = [&](std::string command, std::vector<std::string> more) {
      std::vector<std::string> words{std::move(command)};
      words.insert(words.end(), source.begin(), source.end());
      words.insert(words.end(), more.begin(), more.end());
      return run(words);
    };
    for (const std::vector<std::string>& chosen :
         std::vector<std::vector<std::string>>{{"--head", "0"},
                                               {"--key", "1"},
                                               {"--head", "1", "--key", "0-1"},
                                               {"-s", "weights,logits", "--head", "0"},
                                               {"--head", "0", "--query", "2"}}) {
      const Result shown = with("show", chosen);
      INFO(shown.err);
      CHECK(shown.code == 0);
      CHECK_THAT(shown.out, Contains("logits"));
      std::vector<std::string> to = chosen;
      to.insert(to.end(), {"-o", path});
      const Result dumped = with("dump", to);
      INFO(dumped.err);
      CHECK(dumped.code == 0);
      const io::Contents file = io::open(path);
      CHECK(file.find("layers.0.weights"));
      REQUIRE(file.find("logits"));
      const bool one = std::ranges::find(chosen, "--query") != chosen.end();
      CHECK(file.find("logits")->shape.size() == (one ? 1 : 2));
    }
    CHECK(with("dump", {"-o", folder.path("heads/{head}.npz")}).code == 0);
    CHECK(folder.has("heads/5.npz"));
    // Alone they still lack the axis.
    for (const char* command : {"show", "dump"}) {
      const Result alone =
          with(command, {"-s", "logits", "--head", "0", "-o", folder.path("l.json")});
      CHECK(alone.code == 2);
      CHECK_THAT(alone.err, Contains("logits has no head axis"));
    }
  }
}
