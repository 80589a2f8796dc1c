// Long runs: a hundred layers in one go, in bounded memory, and going on after an interruption.

#include "support/run.hpp"
#include "support/sanitizers.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

using namespace mha::test;
using Catch::Contains;

namespace {

/// A checkpoint of LLaMA's names: 100 layers, 16 wide; and the input of each, 40 tokens.
struct Checkpoint {
  Folder folder;
  std::string input = "X=" + folder.path("hidden.safetensors") + ":layers.{layer}";

  Checkpoint() {
    std::filesystem::create_directory(folder.path("model"));
    folder.write("model/config.json",
                 R"({"model_type": "llama", "num_attention_heads": 2, "hidden_size": 16,
                     "num_hidden_layers": 100, "rope_theta": 10000.0, "rms_norm_eps": 1e-6})");
    std::map<std::string, std::vector<std::size_t>> weights, inputs;
    for (std::size_t n = 0; n < 100; ++n) {
      for (const char* name : {"q_proj", "k_proj", "v_proj", "o_proj"})
        weights["model.layers." + std::to_string(n) + ".self_attn." + name + ".weight"] = {16, 16};
      inputs["layers." + std::to_string(n)] = {40, 16};
    }
    write("model/model.safetensors", weights);
    write("hidden.safetensors", inputs);
  }

  void write(const std::string& name,
             const std::map<std::string, std::vector<std::size_t>>& tensors) const {
    nlohmann::json header;
    std::string data;
    std::uint32_t state = 1;
    for (const auto& [tensor, shape] : tensors) {
      const std::size_t start = data.size();
      for (std::size_t i = 0; i < shape[0] * shape[1]; ++i) {
        state = state * 1664525u + 1013904223u;
        const float value = static_cast<float>(state >> 8) * 0x1p-24f - 0.5f;
        data.append(reinterpret_cast<const char*>(&value), sizeof value);
      }
      header[tensor] = {{"dtype", "F32"}, {"shape", shape}, {"data_offsets", {start, data.size()}}};
    }
    const std::string text = header.dump();
    const std::uint64_t length = text.size();
    folder.write(name, std::string(reinterpret_cast<const char*>(&length), 8) + text + data);
  }

  std::vector<std::string> line(const std::string& layers, const std::string& to) const {
    return {"dump", folder.path("model"), "--layer", layers, input, "--quiet",
            "-o",   folder.path(to)};
  }
  /// KiB that the program had in memory at most. A child also counts the memory of who starts it:
  /// here Python's 10 MiB, less than what the program takes.
  std::size_t memory_of(const std::string& layers, const std::string& to) const {
    std::string command = "\"$MHA\"";
    for (const std::string& word : line(layers, to)) command += " '" + word + "'";
    const Result result = shell(
        "/usr/bin/python3 -c 'import os, resource, sys; code = os.spawnvp(os.P_WAIT, sys.argv[1], "
        "sys.argv[1:]); print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss); "
        "sys.exit(code)' " +
        command);
    INFO(result.err);
    REQUIRE(result.code == 0);
    return std::stoul(result.out);
  }
};

} // namespace

TEST_CASE_METHOD(Checkpoint, "dump: memory does not grow with the number of layers") {
  for (const std::string to : {"all.npz", "layer{layer}.safetensors"}) {
    const std::size_t ten = memory_of("0-9", to), hundred = memory_of("all", to);
    INFO(to << ": " << ten << " KiB for 10 layers, " << hundred << " for 100");
    if (!sanitized) CHECK(hundred < ten + 4096); // the names of what was written
  }
  CHECK(folder.has("layer99.safetensors"));
}

TEST_CASE_METHOD(Checkpoint, "dump: a hundred layers get by with few open files") {
  std::string command = "ulimit -n 24; \"$MHA\"";
  for (const std::string& word : line("all", "layer{layer}.npz")) command += " '" + word + "'";
  const Result result = shell(command);
  INFO(result.err);
  CHECK(result.code == 0);
  CHECK(folder.has("layer99.npz"));
}

TEST_CASE_METHOD(Checkpoint, "dump --resume: computes the layers that are missing, and no other") {
  const auto dump = [&](const std::string& layers, std::vector<std::string> more) {
    std::vector<std::string> words = line(layers, "layer{layer}.npz");
    std::erase(words, "--quiet");
    words.insert(words.end(), {"-s", "weights,output", "--input-norm", "none"});
    words.insert(words.end(), more.begin(), more.end());
    const Result result = run(words);
    INFO(result.err);
    REQUIRE(result.code == 0);
    return result.err;
  };
  dump("0-4", {});
  const std::string right = folder.read("layer3.npz"), first = folder.read("layer0.npz");
  // One is missing, one is cut off, one holds something else, one is another layer's.
  std::filesystem::remove(folder.path("layer1.npz"));
  folder.write("layer2.npz", folder.read("layer2.npz").substr(0, 900));
  REQUIRE(run({"dump", folder.path("model"), "--layer", "3", input, "-s", "q", "-o",
               folder.path("layer3.npz")})
              .code == 0);
  folder.write("layer0.npz", folder.read("layer4.npz"));
  const std::string said = dump("0-4", {"--resume"});
  CHECK_THAT(said, Contains("1 of 5 layers were already complete and were skipped: 4"));
  CHECK(folder.read("layer0.npz") == first);
  CHECK(folder.read("layer3.npz") == right);
  CHECK(folder.has("layer1.npz"));
  CHECK(folder.read("layer2.npz").size() == right.size());
  CHECK_THAT(dump("0-4", {"--resume"}), Contains("5 of 5 layers were already complete"));
  // Other numbers are wanted: nothing is there.
  CHECK_THAT(dump("0-4", {"--resume", "--dump-dtype", "f16"}), !Contains("already complete"));
  CHECK(dump("0-4", {"--resume", "--dump-dtype", "f16", "--quiet"}).empty());
}

TEST_CASE("dump --resume: results of another text, patch or setting are no results of this run") {
  const Folder folder;
  const auto kept = [&](const std::string& format, std::vector<std::string> words) {
    words.insert(words.begin(), {"dump", "data/bard-gpt2", "-s", "weights", "-o",
                                 folder.path("l{layer}." + format), "--resume"});
    const Result result = run(words);
    INFO(result.err);
    REQUIRE(result.code == 0);
    const std::size_t at = result.err.find("were skipped");
    return at == std::string::npos
               ? ""
               : result.err.substr(at + 12, result.err.find('\n', at) - at - 12);
  };
  const std::vector<std::string> ids{"--ids", "1,5,9"};
  const std::string patch = "layers.2.head_out[0] = zero";
  for (const std::string format : {"npz", "safetensors"}) {
    CHECK(kept(format, ids).empty());
    CHECK(kept(format, ids) == ": 0, 1, 2, 3");
    CHECK(kept(format, {"--ids", "1,5,8"}).empty());
    CHECK(kept(format, ids).empty());
    CHECK(kept(format, {"--ids", "1,5,9", "--layer", "3"}) == ": 3");
    CHECK(kept(format, {"--ids", "1,5,9", "--patch", patch}) == ": 0, 1");
    CHECK(kept(format, {"--ids", "1,5,9", "--scale", "0.3"}).empty());
  }
  CHECK(kept("npy", ids).empty());
  CHECK(kept("npy", {"--ids", "1,5,8"}) == ": 0, 1, 2, 3 (judged by their sizes: only .npz and "
                                           ".safetensors record input and weights)");
}

TEST_CASE_METHOD(Checkpoint, "dump --resume: needs a file a layer") {
  std::vector<std::string> words = line("all", "all.npz");
  words.push_back("--resume");
  const Result result = run(words);
  CHECK(result.code == 2);
  CHECK_THAT(result.err, Contains("--output needs {layer}: 'layer{layer}.npz'"));
}
