// Whole models, where something is wrong with numbers, settings or shapes: what is reported.

#include "support/files.hpp"
#include "support/run.hpp"
#include "support/sanitizers.hpp"

#include <catch2/catch.hpp>

#include <nlohmann/json.hpp>

#include <cstring>
#include <fstream>

using namespace mha;
using namespace mha::test;
using Catch::Contains;
using nlohmann::json;

namespace {

/// A copy of a model whose safetensors header and config may be changed.
struct Copy {
  Folder folder;
  json header, config;
  std::string data;

  explicit Copy(const std::string& model) {
    REQUIRE(shell("cp " + model + "/*.json '" + folder.path() + "'").code == 0);
    std::ifstream file(in_source(model + "/model.safetensors"), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof length);
    header = json::parse(bytes.substr(8, length));
    data = bytes.substr(8 + length);
    config = json::parse(folder.read("config.json"));
  }
  /// Overwrites the first bytes of a tensor.
  void spoil(const std::string& name, const std::string& bytes) {
    const std::size_t at = header[name]["data_offsets"][0];
    data.replace(at, bytes.size(), bytes);
  }
  Result predict(std::vector<std::string> more = {}) { return run_as("predict", std::move(more)); }
  /// A tensor of zeros after the others.
  void add(const std::string& name, const std::vector<std::size_t>& shape) {
    std::size_t bytes = 2;
    for (const std::size_t n : shape) bytes *= n;
    header[name] = {
        {"dtype", "F16"}, {"shape", shape}, {"data_offsets", {data.size(), data.size() + bytes}}};
    data.append(bytes, '\0');
  }
  Result run_as(const std::string& command, std::vector<std::string> more,
                const std::vector<std::string>& text = {"--ids", "1,2,3"}) {
    const std::string head = header.dump();
    const std::uint64_t length = head.size();
    std::ofstream file(folder.path("model.safetensors"), std::ios::binary);
    file.write(reinterpret_cast<const char*>(&length), sizeof length);
    file << head << data;
    file.close();
    folder.write("config.json", config.dump());
    std::vector<std::string> arguments{command, folder.path()};
    arguments.insert(arguments.end(), text.begin(), text.end());
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(arguments);
  }
};

const std::string nan_of_half = "\xff\x7f";

/// Without the line that gives how many runs a sweep takes.
std::vector<std::string> with_quiet(std::vector<std::string> words) {
  words.push_back("--quiet");
  return words;
}

} // namespace

TEST_CASE("model: NaN and infinity in weights are named, not predicted with") {
  for (const std::string name : {"model.layers.1.mlp.up_proj.weight", "model.embed_tokens.weight",
                                 "model.norm.weight", "lm_head.weight"}) {
    Copy copy("data/bard-llama");
    // Of the embedding, a row that the text has.
    const std::size_t row = 96 * 2;
    std::string spoiled(name.find("embed") == std::string::npos ? 0 : row, '\0');
    copy.spoil(name, spoiled + nan_of_half);
    const Result result = copy.predict();
    INFO(name << "\n" << result.err);
    CHECK(result.code == 2);
    CHECK(one_line(result.err));
    CHECK_THAT(result.err, Contains("are not numbers") && Contains("in " + name));
    // The stages are computed with it, as NaN everywhere: the overview counts them.
    CHECK(run({"show", copy.folder.path(), "--ids", "1,2,3", "--layer", "2"}).code == 0);
  }
}

TEST_CASE("model: effects, sweeps and circuits of weights that are no numbers say so") {
  Copy model("data/bard-llama");
  model.spoil("model.layers.1.self_attn.q_proj.weight", nan_of_half);
  const std::string why = "in model.layers.1.self_attn.q_proj.weight are NaN or infinite";
  for (const std::vector<std::string>& more : std::vector<std::vector<std::string>>{
           {},
           {"--ablate", "mean"},
           {"--sweep", "v", "--patch-from-ids", "1,4,3"},
           {"--sweep", "v", "--patch-from-ids", "1,4,3", "--metric", "kl"}}) {
    const Result result = model.run_as("effects", with_quiet(more));
    INFO(result.err);
    CHECK(result.code == 2);
    CHECK(one_line(result.err));
    CHECK_THAT(result.err, Contains("the logits at position 2 are not numbers") && Contains(why));
  }
  const Result circuits = model.run_as("circuits", {}, {});
  CHECK(circuits.code == 0);
  CHECK_THAT(circuits.err, Contains("warning: layer 1: W_q has numbers that are NaN or infinite"));
  Copy ends("data/bard-llama");
  ends.spoil("model.embed_tokens.weight", nan_of_half);
  CHECK_THAT(ends.run_as("circuits", {}, {}).err,
             Contains("no copying: the embedding, the last norm or the unembedding has numbers"));
}

TEST_CASE("model: a size under another family's name is left over, the family's own counts") {
  const std::string raw = run({"predict", "data/bard-llama", "--ids", "1,2,3"}).out;
  for (const char* key :
       {"n_embd", "d_model", "dim", "n_head", "n_layer", "n_layers", "ffn_dim", "n_inner"}) {
    Copy model("data/bard-llama");
    model.config[key] = 5;
    const Result result = model.predict();
    INFO(key << "\n" << result.err);
    CHECK(result.out == raw);
    CHECK_THAT(result.err, Contains(std::string("not read here: ") + key + " 5."));
    // Of the same size, it states nothing new.
    model.config[key] = std::string(key) == "n_head"                                           ? 6
                        : std::string(key).find("layer") != std::string::npos                  ? 4
                        : std::string(key).starts_with("ffn") || std::string(key) == "n_inner" ? 256
                                                                                               : 96;
    CHECK(model.predict().err == "");
  }
  Copy both("data/bard-gpt2"); // Transformers calls n_head so, too
  both.config["num_attention_heads"] = 3;
  CHECK_THAT(both.predict().err, Contains("n_head is 6, and num_attention_heads is 3"));
}

TEST_CASE("model: what stands beside quantised weights of attention is refused as elsewhere") {
  for (const char* name : {"self_attn.q_proj.weight_scale", "self_attn.o_proj.weight_scale_inv",
                           "self_attn.v_proj.input_scale", "mlp.up_proj.input_scale"}) {
    Copy model("data/bard-llama");
    model.add(std::string("model.layers.1.") + name, {1});
    const Result result = model.predict();
    INFO(result.err);
    CHECK(result.code == 2);
    CHECK_THAT(result.err, Contains(std::string(name) + " is of quantised weights"));
  }
  Copy model("data/bard-llama");
  model.add("model.layers.1.self_attn.sinks", {6}); // LLaMA has none
  CHECK_THAT(model.predict().err,
             Contains("warning: ") && Contains("layers.1.self_attn.sinks") && !Contains("GPT-OSS"));
}

TEST_CASE("model: warnings say the layer where there is one, and what is lost by its own name") {
  Copy model("data/bard-llama");
  model.add("model.layers.1.self_attn.q_proj.bias", {96});
  CHECK_THAT(model.predict().err,
             Contains("warning: ") && Contains("1 of the 4 layers has") && !Contains("layer :"));
  Copy untied("data/bard-bert");
  untied.config["tie_word_embeddings"] = false;
  CHECK_THAT(untied.run_as("show", {"-s", "weights", "-l", "0"}).err,
             Contains("there is no cls.predictions.decoder, though"));
  Copy settings("data/bard-llama");
  settings.config["quantization_config"] = nullptr;
  CHECK(settings.predict().err == "");
  settings.config["layer_types"] = std::vector<std::string>(4, "chunked_attention");
  CHECK_THAT(settings.predict().err, Contains("chunke…. If the model"));
  settings.config.erase("layer_types");
  settings.config["rope_scaling"] = "linear";
  CHECK_THAT(settings.predict().err,
             Contains("rope_scaling is 'linear', not an object with a type"));
  settings.config.erase("rope_scaling");
  settings.config["pruned_heads"] = {{"0", {1}}};
  CHECK_THAT(settings.predict().err, Contains("not read here: pruned_heads.0"));
}

TEST_CASE("model: a config that contradicts the tensors' widths is refused") {
  const auto says = [](const std::string& key, const json& value, const std::string& words) {
    Copy copy("data/bard-llama");
    copy.config[key] = value;
    const Result result = copy.predict();
    INFO(key << "\n" << result.err);
    CHECK(result.code == 2);
    CHECK(one_line(result.err));
    CHECK_THAT(result.err, Contains(words));
  };
  says("intermediate_size", 300, "intermediate_size 300, but the tensors have 256");
  says("head_dim", 32, "head_dim 32, but the tensors' heads are 16 wide");
  says("hidden_size", 128, "hidden_size 128");
  says("num_attention_heads", 5, "5 query heads");
  says("num_hidden_layers", "four", "num_hidden_layers is 'four'");
}

TEST_CASE("model: missing tensors are named") {
  for (const std::string name :
       {"model.layers.2.mlp.down_proj.weight", "model.layers.3.post_attention_layernorm.weight",
        "model.norm.weight", "model.embed_tokens.weight"}) {
    Copy copy("data/bard-llama");
    copy.header[name + ".other"] = copy.header[name];
    copy.header.erase(name);
    const Result result = copy.predict();
    INFO(result.err);
    CHECK(result.code == 2);
    CHECK(one_line(result.err));
    CHECK_THAT(result.err, Contains(name + " is missing") && Contains("X=FILE"));
  }
  Copy copy("data/bard-llama");
  copy.header["other"] = copy.header["model.layers.2.self_attn.q_proj.weight"];
  copy.header.erase("model.layers.2.self_attn.q_proj.weight");
  CHECK_THAT(copy.predict().err, Contains("layer 2 is missing, or a projection of it"));
}

TEST_CASE("model: a text beyond the trained positions is computed and said") {
  Copy copy("data/bard-llama");
  copy.config["max_position_embeddings"] = 2;
  const Result result = copy.predict();
  CHECK(result.code == 0);
  CHECK_THAT(result.err, Contains("the text has 3 tokens, but config.json has positions for 2"));
  copy.config["max_position_embeddings"] = 3;
  CHECK(copy.predict().err.empty());
}

TEST_CASE("model: options of a layer are for every layer, and that is said once") {
  const std::string words = "--scale 0.5, --causal false: for every layer of the model";
  for (const std::string command : {"show", "predict", "bench"}) {
    std::vector<std::string> arguments{command, "data/bard-gpt2", "--text", "To be", "--scale",
                                       "0.5",   "--no-causal"};
    if (command == "bench") arguments.insert(arguments.end(), {"--repeat", "1"});
    const Result result = run(arguments);
    INFO(command << "\n" << result.err);
    CHECK(result.code == 0);
    const std::size_t first = result.err.find(words);
    CHECK(first != std::string::npos);
    CHECK(result.err.find(words, first + 1) == std::string::npos);
  }
  CHECK(run({"predict", "data/bard-gpt2", "--text", "To be"}).err.empty());
}

TEST_CASE("overflow: info's checks and diagnose tell it as such") {
  const Folder folder;
  const std::string layer =
      folder.write("layer.json",
                   R"({"num_heads": 1, "X": [[1e20, 2e20], [3e20, 1e20]], "W_q": [[1, 0], [0, 1]],
          "W_k": [[1, 0], [0, 1]], "W_v": [[1, 0], [0, 1]], "W_o": [[1, 0], [0, 1]]})");
  const Result told = run({"diagnose", layer, "--dtype", "f32", "--against",
                           "output=" + folder.write("o.json", R"({"o": [[1, 2], [3, 4]]})")});
  INFO(told.out << told.err);
  CHECK_THAT(told.err, Contains("warning: overflow: ") && Contains("scores"));
  const Result wide =
      run({"diagnose", layer, "--dtype", "f64", "--against", "output=" + folder.path("o.json")});
  CHECK(wide.err.find("overflow") == std::string::npos);
}

TEST_CASE("layers: thousands of unknown tensors beside thousands of layers take seconds") {
  // Every pair of a layer and a tensor looked at would be millions of names compared.
  const Folder folder;
  const auto tensors = [&](const std::string& path, const std::vector<std::string>& names) {
    json header;
    std::size_t at = 0;
    for (const std::string& name : names) {
      header[name] = {{"dtype", "F32"}, {"shape", {2, 2}}, {"data_offsets", {at, at + 16}}};
      at += 16;
    }
    const std::string text = header.dump();
    const std::uint64_t length = text.size();
    std::ofstream file(path, std::ios::binary);
    file.write(reinterpret_cast<const char*>(&length), sizeof length);
    file << text << std::string(at, '\0');
  };
  std::vector<std::string> layers, others;
  const int count = sanitized ? 300 : 1500;
  for (int n = 0; n < count; ++n)
    for (const char* letter : {"q", "k", "v", "o"})
      layers.push_back(fmt::format("model.layers.{}.self_attn.{}_proj.weight", n, letter));
  for (int n = 0; n < 3 * count; ++n) others.push_back(fmt::format("junk{}", n));
  std::filesystem::create_directory(folder.path("model"));
  tensors(folder.path("model/model.safetensors"), layers);
  folder.write("model/config.json", R"({"model_type": "llama", "num_attention_heads": 1})");
  tensors(folder.path("others.safetensors"), others);
  folder.write("x.json", R"({"X": [[1, 2], [3, 4]]})");
  const std::string files = folder.path("model") + " " + folder.path("others.safetensors");
  // Every pair took more than half a minute.
  const auto within = [](int seconds, const std::string& words) {
    return shell(fmt::format("ulimit -t {}; \"$MHA\" {}", sanitized ? 4 * seconds : seconds, words))
               .code == 0;
  };
  CHECK(within(20, "info " + files));
  CHECK(within(10, "show --layer all --same-x -q -s output -f csv " + files +
                       " X=" + folder.path("x.json") + ":X"));
}
