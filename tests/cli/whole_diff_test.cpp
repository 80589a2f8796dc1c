// A whole model against another implementation: the first layer that differs, what grows from
// rounding, and Transformers' hidden_states, the last of which is normed.

#include "support/files.hpp"
#include "support/run.hpp"

#include <catch2/catch.hpp>

#include <nlohmann/json.hpp>

#include <cstring>
#include <fstream>

using namespace mha;
using namespace mha::test;
using Catch::Contains;

namespace {

const std::string ids = "65,300,12,7,90,41";

/// A safetensors file of float32 tensors.
void write_tensors(const std::string& path, const std::map<std::string, Tensor>& tensors) {
  nlohmann::json header;
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    const Tensor values = convert(tensor, DType::f32);
    header[name] = {{"dtype", "F32"},
                    {"shape", values.shape()},
                    {"data_offsets", {data.size(), data.size() + values.bytes()}}};
    data.append(reinterpret_cast<const char*>(values.raw()), values.bytes());
  }
  const std::string text = header.dump();
  const std::uint64_t length = text.size();
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(&length), sizeof length);
  file << text << data;
}

/// What Transformers calls hidden_states: the stream before each layer, and `final`.
std::vector<Tensor> states_of(const std::string& model, const Folder& folder,
                              const std::string& precision = "f64") {
  const std::string path = folder.path("dump.npz");
  REQUIRE(run({"dump", model, "--ids", ids, "--dtype", precision, "-q", "-o", path}).code == 0);
  const io::Contents file = io::open(path);
  std::vector<Tensor> states;
  for (std::size_t n = 0; n < 4; ++n)
    states.push_back(tensor_in(file, fmt::format("layers.{}.resid_pre", n)));
  states.push_back(file.find("final") ? tensor_in(file, "final")
                                      : tensor_in(file, "layers.3.resid_post"));
  return states;
}

Tensor stacked(const std::vector<Tensor>& list) {
  Shape shape = list[0].shape();
  shape.insert(shape.begin(), list.size());
  Tensor all(list[0].dtype(), shape);
  for (std::size_t i = 0; i < list.size(); ++i)
    std::memcpy(all.raw_mutable() + i * list[i].bytes(), list[i].raw(), list[i].bytes());
  return all;
}

Result compared(const std::string& model, const std::string& reference,
                std::vector<std::string> more = {}) {
  std::vector<std::string> arguments{"diff", model, "--ids", ids, "--against", reference};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return run(arguments);
}

} // namespace

TEST_CASE("whole diff: a model's own dump is equal, layer by layer") {
  const Folder folder;
  for (const std::string model : {"data/bard-gpt2", "data/bard-llama", "data/bard-bert"}) {
    const std::string path = folder.path("own.npz");
    REQUIRE(run({"dump", model, "--ids", ids, "-q", "-o", path}).code == 0);
    const Result result = compared(model, path);
    INFO(result.out << result.err);
    CHECK(result.code == 0);
    for (const char* line : {"\n0 ", "\n3 ", "\nmodel "}) CHECK_THAT(result.out, Contains(line));
    CHECK_THAT(result.out, Contains("equal") && Contains("Every layer agrees"));
    const nlohmann::json json =
        nlohmann::json::parse(compared(model, path, {"--format", "json"}).out);
    CHECK(json.contains("layers.0"));
    CHECK(json["model"]["equal"] == true);
  }
}

TEST_CASE("whole diff: what PyTorch computed agrees, in float32 and float64") {
  for (const std::string name : {"bard-gpt2", "bard-llama", "bard-bert"}) {
    const std::string expected = "data/" + name + "/expected/line.npz";
    for (const char* precision : {"f32", "f64"}) {
      const Result result = run({"diff", "data/" + name, "--ids", expected, "--against", expected,
                                 "--dtype", precision, "--atol", "1e-4"});
      INFO(name << " " << precision << "\n" << result.out << result.err);
      CHECK(result.code == 0);
    }
  }
}

TEST_CASE("whole diff: hidden_states as a stack and as a list; the last is normed") {
  const Folder folder;
  for (const std::string model : {"data/bard-gpt2", "data/bard-llama", "data/bard-bert"}) {
    const std::vector<Tensor> states = states_of(model, folder);
    const std::string stack = folder.path("stack.safetensors"),
                      list = folder.path("list.safetensors");
    write_tensors(stack, {{"hidden_states", stacked(states)}});
    std::map<std::string, Tensor> named;
    for (std::size_t i = 0; i < states.size(); ++i)
      named[fmt::format("hidden_states.{}", i)] = states[i];
    write_tensors(list, named);
    for (const std::string& path : {stack, list}) {
      const Result result = compared(model, path);
      INFO(model << " " << path << "\n" << result.out << result.err);
      CHECK(result.code == 0);
      CHECK_THAT(result.out, Contains("resid_post"));
      if (model != "data/bard-bert") CHECK_THAT(result.out, Contains("final"));
    }
  }
  write_tensors(folder.path("few.safetensors"),
                {{"hidden_states", Tensor(DType::f32, {3, 6, 96})}});
  const Result few = compared("data/bard-gpt2", folder.path("few.safetensors"));
  CHECK(few.code == 2);
  CHECK_THAT(few.err, Contains("5 states are expected"));
}

TEST_CASE("whole diff: a mistake in a layer is told from what follows it and from rounding") {
  const Folder folder;
  const std::string model = "data/bard-gpt2", path = folder.path("wrong.npz"),
                    own = folder.path("own.npz");
  // Layer 2's feed-forward is another one: the layers behind it follow.
  REQUIRE(run({"dump", model, "--ids", ids, "-q", "-o", own}).code == 0);
  REQUIRE(run({"dump", model, "--ids", ids, "-q", "-o", path,
               "layers.2.mlp_act=" + own + ":layers.1.mlp_act"})
              .code == 0);
  const Result result = compared(model, path);
  INFO(result.out << result.err);
  CHECK(result.code == 1);
  CHECK_THAT(result.out, Contains("layer 2 is the first that differs, in mlp_act") &&
                             Contains("mlp_act is the first step that differs") &&
                             Contains("follows"));
  // From the streams alone the same layer is found.
  std::vector<Tensor> states;
  const io::Contents file = io::open(path);
  for (std::size_t n = 0; n < 4; ++n)
    states.push_back(tensor_in(file, fmt::format("layers.{}.resid_pre", n)));
  states.push_back(tensor_in(file, "final"));
  write_tensors(folder.path("states.safetensors"), {{"hidden_states", stacked(states)}});
  const Result streams = compared(model, folder.path("states.safetensors"));
  INFO(streams.out << streams.err);
  CHECK(streams.code == 1);
  CHECK_THAT(streams.out, Contains("layer 2 is the first that differs, in resid_post"));
}

TEST_CASE("whole diff: growth of rounding is no mistake, and as much elsewhere is one") {
  const Folder folder;
  const std::string model = "data/bard-gpt2";
  const std::vector<Tensor> states = states_of(model, folder, "f32");
  // Numbers of the size that a reference in float32 has: some spacings of the stream.
  const auto moved = [&](double by) {
    std::vector<Tensor> other;
    for (const Tensor& state : states) {
      Tensor copy = copy_of(view_of(state));
      for (std::size_t i = 0; i < copy.count(); i += 7)
        copy.as_mutable<float>()[i] += static_cast<float>(by);
      other.push_back(std::move(copy));
    }
    write_tensors(folder.path("moved.safetensors"), {{"hidden_states", stacked(other)}});
    return compared(model, folder.path("moved.safetensors"), {"--atol", "1e-9", "--rtol", "0"});
  };
  const Result large = moved(1e-2);
  CHECK(large.code == 1);
  CHECK_THAT(large.out, Contains("layer 0 is the first that differs"));
  // float64 against float32: outside such a tolerance, within what rounding does.
  const std::vector<Tensor> exact = states_of(model, folder, "f64");
  write_tensors(folder.path("exact.safetensors"), {{"hidden_states", stacked(exact)}});
  const Result grown =
      compared(model, folder.path("exact.safetensors"), {"--atol", "1e-9", "--rtol", "0"});
  INFO(grown.out << grown.err);
  CHECK(grown.code == 0);
  CHECK_THAT(grown.out, Contains("rounding") && Contains("of its rms"));
}

TEST_CASE("whole diff: a file without anything of the model is an error") {
  const Result result = compared("data/bard-gpt2", "data/induction/hidden.npz");
  CHECK(result.code == 2);
  CHECK(one_line(result.err));
}

TEST_CASE("whole diff: what was not compared is told, and another shape is a difference") {
  const Folder folder;
  const std::string own = folder.path("own.npz"), other = folder.path("other.npz");
  REQUIRE(run({"dump", "data/bard-llama", "--ids", ids, "-s", "weights,logits", "-q", "-o", own})
              .code == 0);
  const auto edited = [&](const std::string& python) {
    const std::string program = "import numpy as np; a = dict(np.load('" + own + "')); " + python +
                                "; np.savez('" + other + "', **a)";
    REQUIRE(shell("/usr/bin/python3 -c \"" + program + "\"").code == 0);
    return compared("data/bard-llama", other);
  };
  const Result shape = edited("a['layers.2.weights'] = np.ones((6, 4, 4))");
  CHECK(shape.code == 1);
  CHECK_THAT(shape.err, Contains("warning: --against: not compared: ") &&
                            Contains("layers.2.weights is (6, 4, 4)"));
  CHECK_THAT(shape.out, Contains("The 3 layers that the reference has agree"));
  const Result ends = edited("a['logits'] = np.ones((3, 7))");
  CHECK(ends.code == 1);
  CHECK_THAT(ends.err, Contains("logits is (3, 7)"));
  const Result misspelt = edited("a['layers.3.wieghts'] = a.pop('layers.3.weights')");
  CHECK(misspelt.code == 0);
  CHECK_THAT(misspelt.err, Contains("layers.3.wieghts (is it weights?)"));
  const Result beyond = edited("a['layers.7.weights'] = a['layers.3.weights']");
  CHECK_THAT(beyond.err, Contains("layers.7: the model's layers are 0 to 3"));
  CHECK(compared("data/bard-llama", other, {"--strict"}).code == 2);
}
