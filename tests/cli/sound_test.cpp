// What of a model is another thing than it seems: pointers in the place of files, an adapter beside
// it, settings of layers that are not there.

#include "support/run.hpp"

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include <filesystem>

using namespace mha::test;
using Catch::Contains;

namespace {

const std::string pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n";

/// A copy of a trained model that may be written to.
std::string copied(const Folder& folder, const std::string& model) {
  const std::string path = folder.path(model);
  std::filesystem::remove_all(path);
  REQUIRE(shell("cp -r 'data/" + model + "' '" + path + "'").code == 0);
  return path;
}

} // namespace

TEST_CASE("sound: a Git LFS pointer in the place of a model's file is named") {
  const Folder folder;
  struct Case {
    std::string model, file;
    bool without_tokenizer_json = false;
  };
  for (const Case& one : {Case{"bard-llama", "config.json"},
                          {"bard-llama", "model.safetensors"},
                          {"bard-llama", "tokenizer.json"},
                          {"bard-llama", "tokenizer_config.json"},
                          {"bard-llama", "special_tokens_map.json"},
                          {"bard-llama", "added_tokens.json"},
                          {"bard-gpt2", "vocab.json", true},
                          {"bard-gpt2", "merges.txt", true},
                          {"bard-bert", "vocab.txt", true}}) {
    const std::string path = copied(folder, one.model);
    if (one.without_tokenizer_json) std::filesystem::remove(path + "/tokenizer.json");
    folder.write(one.model + "/" + one.file, pointer);
    const Result result = run({"predict", path, "--text", "To be"});
    INFO(one.file << "\n" << result.err);
    CHECK(result.code == 2);
    CHECK(one_line(result.err));
    CHECK_THAT(result.err, Contains(one.file + ": a Git LFS pointer, not the file itself"));
  }
  // A shard, and the list of shards.
  const std::string path = copied(folder, "bard-llama");
  std::filesystem::rename(path + "/model.safetensors", path + "/model-1.safetensors");
  const std::string index = "bard-llama/model.safetensors.index.json";
  folder.write("bard-llama/model-2.safetensors", pointer);
  folder.write(index, R"({"weight_map": {"lm_head.weight": "model-1.safetensors",
                                         "model.norm.weight": "model-2.safetensors"}})");
  CHECK_THAT(run({"predict", path, "--ids", "1,2"}).err,
             Contains("model-2.safetensors: a Git LFS pointer"));
  folder.write(index, pointer);
  CHECK_THAT(run({"predict", path, "--ids", "1,2"}).err,
             Contains("model.safetensors.index.json: a Git LFS pointer"));
  for (const std::string file : {"x.npy", "x.npz", "x.json", "x.gguf", "x.pt", "x.onnx"})
    CHECK_THAT(run({"info", folder.write(file, pointer)}).err, Contains("a Git LFS pointer"));
}

TEST_CASE("sound: an adapter beside a model is told") {
  const Folder folder;
  const std::vector<std::string> words{"predict", "data/bard-llama", "--ids", "3,4,5"};
  const std::string plain = run(words).out;
  for (const std::string name : {"adapter_config.json", "adapter_model.safetensors"}) {
    std::vector<std::string> own = words;
    own[1] = copied(folder, "bard-llama");
    folder.write("bard-llama/" + name, "{}");
    const Result result = run(own);
    INFO(name << "\n" << result.err);
    CHECK(result.out == plain);
    CHECK(one_line(result.err));
    CHECK_THAT(result.err, Contains("warning: ") && Contains(name + " is beside the model"));
    own.emplace_back("--strict");
    CHECK(run(own).code == 2);
  }
}

TEST_CASE("sound: a tokenizer of more tokens than the model has is told") {
  const Folder folder;
  const std::string path = copied(folder, "bard-llama");
  REQUIRE(shell(R"py(/usr/bin/python3 -c "
import json, sys
with open(sys.argv[1]) as file: tree = json.load(file)
tree['model']['vocab'].update({'z' * 9 + str(n): 1024 + n for n in range(512)})
with open(sys.argv[1], 'w') as file: json.dump(tree, file)" ')py" +
                path + "/tokenizer.json'")
              .code == 0);
  const Result result = run({"predict", path, "--text", "To be"});
  INFO(result.err);
  CHECK(result.out == run({"predict", "data/bard-llama", "--text", "To be"}).out);
  CHECK_THAT(result.err, Contains("warning: the tokenizer has 1536 tokens, the model 1024"));
}

TEST_CASE("sound: tokenizer_config.json against tokenizer.json of BERT") {
  const Folder folder;
  const std::string path = copied(folder, "bard-bert");
  const auto ids = [&] {
    const Result result =
        run({"tokens", path, "--text", "Thy café [MASK] 中文", "-f", "csv", "-q"});
    INFO(result.err);
    CHECK(result.code == 0);
    return result.out;
  };
  for (const char* setting : {R"({"do_lower_case": false})", R"({"strip_accents": false})",
                              R"({"tokenize_chinese_chars": false})",
                              R"({"do_lower_case": false, "strip_accents": true})"}) {
    folder.write("bard-bert/tokenizer_config.json", setting);
    const std::string with_json = ids();
    std::filesystem::rename(path + "/tokenizer.json", path + "/kept");
    CHECK(with_json == ids()); // of vocab.txt alone
    std::filesystem::rename(path + "/kept", path + "/tokenizer.json");
  }
}

TEST_CASE("sound: options that files and a text leave nothing to do are told") {
  for (const char* option : {"--gguf-order", "--same-x"}) {
    const Result result = run({"predict", "data/bard-gpt2", "--ids", "3,4,5", option});
    CHECK(result.code == 0);
    CHECK_THAT(result.err, Contains(std::string("warning: ") + option + " has no effect"));
  }
  const Result top =
      run({"predict", "data/bard-gpt2", "--ids", "3,4,5", "--query", "all", "--top", "3"});
  CHECK(top.code == 2);
  CHECK_THAT(top.err, Contains("--top has no effect"));
  CHECK(run({"predict", "data/bard-gpt2", "--ids", "3,4,5", "--query", "all", "--top", "3", "-f",
             "json"})
            .code == 0);
}

TEST_CASE("sound: a text of gigabytes is refused before it is read") {
  const Folder folder;
  const std::string text = folder.write("text", "");
  std::filesystem::resize_file(text, std::uintmax_t{3} << 30); // no block of the disk
  for (const std::string command : {"tokens", "predict"}) {
    const Result result = run({command, "data/bard-llama", "--text-file", text});
    INFO(result.err);
    CHECK(result.code == 2);
    CHECK_THAT(result.err, Contains("a text of 3221225472 bytes; at most 1 GiB"));
  }
}

TEST_CASE("sound: the value of a letter follows without an equals sign") {
  const Folder folder;
  const Setting there{.folder = folder.path()};
  folder.write("layer.json", small_layer_json());
  for (const std::string command : {"show", "dump"}) {
    const Result result = run({command, "layer.json", "-o=x.npz"}, there);
    INFO(result.err);
    CHECK(result.code == 2);
    CHECK_THAT(result.err, Contains("'-o=x.npz': the value of -o follows without '=': -o x.npz"));
  }
  CHECK(folder.names().size() == 1);
  CHECK(run({"tokens", "data/bard-llama", "--text", "-s=x"}).code == 0);
  CHECK(run({"dump", "layer.json", "-q", "--output=x.npz"}, there).code == 0);
}

TEST_CASE("sound: settings of a layer that is not there are told") {
  const Folder folder;
  const std::string layers = fmt::format(R"("layers": {{"0": {0}, "1": {0})", small_layer_json());
  for (const std::string& text : {"{" + layers + R"(, "9": {"causal": false}}})",
                                  "{" + layers + R"(}, "layers.9.causal": false})"}) {
    const Result result = run({"show", folder.write("layers.json", text), "--layer", "all"});
    INFO(result.err);
    CHECK(result.code == 0);
    CHECK_THAT(result.err, Contains("warning: ") && Contains("layers.9.causal is of layer 9"));
  }
  const Result bound = run({"predict", "data/bard-llama", "--ids", "1,2", "layers.9.scale=3"});
  CHECK(bound.code == 2);
  CHECK_THAT(bound.err, Contains("there is no layer 9: the model's layers are 0 to 3"));
}

TEST_CASE("sound: a layer that lacks its input among others is told") {
  Folder folder;
  const std::string W = R"([[1, 0], [0, 1]])";
  std::string both, one;
  for (int n = 0; n < 2; ++n)
    for (const std::string letter : {"q", "k", "v", "o"})
      both += fmt::format(R"("layers.{}.W_{}": {}, )", n, letter, W);
  one = "{" + both + R"("layers.1.X": [[1, 2], [3, 4]]})";
  both = "{" + both + R"("layers.0.X": [[1, 2], [3, 4]], "layers.1.X": [[1, 2], [3, 4]]})";
  const auto told = [&](const std::string& name, const std::string& layers) {
    return run({"stats", folder.write(name, layers), "--layer", "all", "--num-heads", "1"}).err;
  };
  CHECK(told("both.json", both).empty());
  CHECK(told("one.json", one) == "note: layer 0: no weights can be computed, so only its "
                                 "projections are measured\n");
}
