// ONNX: models that a writer in Python makes by hand (tests/models/onnx.py) are computed to NumPy's
// numbers, and tensors of every type are read to its bits.

#include "support/files.hpp"
#include "support/onnx_models.hpp"
#include "support/run.hpp"

#include <catch2/catch.hpp>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

using namespace mha;
using namespace mha::test;

namespace {

/// The writer; nothing where there is no NumPy.
Result onnx(const std::string& arguments) {
  const Result made = shell("/usr/bin/python3 tests/models/onnx.py " + arguments);
  if (made.code != 0) WARN("no NumPy, so nothing to compare with: " << made.err);
  return made;
}

Tensor tensor_of(const io::Contents& contents, const std::string& name) {
  INFO(contents.name << ": " << name);
  REQUIRE(contents.find(name));
  return contents.find(name)->read();
}

/// The largest difference of two tensors of as many numbers.
double difference(const Tensor& a, const Tensor& b) {
  REQUIRE(a.count() == b.count());
  double largest = 0;
  for (std::size_t i = 0; i < a.count(); ++i)
    largest = std::max(largest, std::abs(value_at(a, i) - value_at(b, i)));
  return largest;
}

} // namespace

TEST_CASE("computes the attention of an ONNX graph as NumPy does", "[cli][onnx]") {
  const Result cases = onnx("cases");
  if (cases.code != 0) return;
  std::istringstream names(cases.out);
  std::size_t count = 0;
  for (std::string name; names >> name; ++count) {
    INFO(name);
    const Folder folder;
    const std::string model = folder.path("model.onnx"), wanted = folder.path("wanted.npz");
    REQUIRE(onnx("case " + name + " " + model + " " + folder.path("X.npy") + " " + wanted).code ==
            0);
    const io::Contents expected = io::open(wanted);
    std::vector<std::string> command{"dump",    model,     "X=" + folder.path("X.npy"),
                                     "--stage", "weights", "--stage",
                                     "output",  "-o",      folder.path("found.npz")};
    if (expected.find("X_kv")) command.push_back("X_kv=" + wanted + ":X_kv");
    const Result result = run(command);
    INFO(result.err);
    REQUIRE(result.code == 0);
    const io::Contents found = io::open(folder.path("found.npz"));
    CHECK(difference(tensor_of(found, "weights"), tensor_of(expected, "weights")) < 1e-6);
    CHECK(difference(tensor_of(found, "output"), tensor_of(expected, "output")) < 1e-5);
  }
  CHECK(count >= 22);
}

TEST_CASE("computes the attention of an ONNX graph as ONNX Runtime does", "[cli][onnx]") {
  // Written by tests/data/onnxruntime/make.mjs.
  const std::string graphs = in_source("tests/data/onnxruntime/");
  const io::Contents expected = io::open(graphs + "expected.json");
  std::size_t count = 0;
  for (const io::Entry& entry : expected.tensors) {
    if (!entry.name.ends_with(".X")) continue;
    const std::string name = entry.name.substr(0, entry.name.size() - 2);
    INFO(name);
    const Folder folder;
    const std::string numbers = graphs + "expected.json:" + name;
    for (const std::string& model :
         {graphs + name + ".onnx", folder.path("converted.safetensors")}) {
      INFO(model);
      if (!model.starts_with(graphs))
        REQUIRE(run({"convert", graphs + name + ".onnx", "-o", model}).code == 0);
      std::vector<std::string> command{
          "dump", model, "X=" + numbers + ".X",   "-s", "weights,concat,output",
          "-q",   "-o",  folder.path("found.npz")};
      if (expected.find(name + ".X_kv")) command.push_back("X_kv=" + numbers + ".X_kv");
      const Result result = run(command);
      INFO(result.err);
      REQUIRE(result.code == 0);
      const io::Contents found = io::open(folder.path("found.npz"));
      for (const char* stage : {"weights", "concat", "output"})
        if (const io::Entry* wanted = expected.find(name + "." + stage)) {
          CHECK(difference(tensor_of(found, stage), wanted->read()) < 1e-5);
          ++count;
        }
    }
  }
  CHECK(count == 58);
}

TEST_CASE("computes the attention of PyTorch's exports as PyTorch does", "[cli][onnx]") {
  // Written by tests/data/pytorch/onnx.py: opsets 11 to 17, lengths fixed and open.
  std::size_t count = 0;
  for (const auto& at : std::filesystem::directory_iterator(in_source("tests/data/pytorch/onnx"))) {
    if (at.path().extension() != ".onnx") continue;
    const std::string model = at.path().string(),
                      expected = std::filesystem::path(at).replace_extension(".npz").string();
    INFO(model);
    const Folder folder;
    const Result result = run({"dump", model, "X=" + expected + ":X", "-s", "weights,output", "-q",
                               "-o", folder.path("found.npz")});
    INFO(result.err);
    REQUIRE(result.code == 0);
    CHECK(result.err.empty());
    const io::Contents found = io::open(folder.path("found.npz")), wanted = io::open(expected);
    for (const char* stage : {"weights", "output"})
      CHECK(difference(tensor_of(found, stage), tensor_of(wanted, stage)) < 4e-6);
    ++count;
  }
  CHECK(count == 21);
}

TEST_CASE("an ONNX graph that is converted has each number once", "[cli][onnx]") {
  const Folder folder;
  const std::string graph = in_source("tests/data/onnxruntime/fused-causal.onnx"),
                    whole = folder.path("whole.safetensors");
  REQUIRE(run({"convert", graph, "-o", whole}).code == 0);
  const io::Contents from = io::open(graph), to = io::open(whole);
  const std::string layer = "encoder.layers.3.self_attn.";
  for (const char* part : {"W_q", "W_k", "W_v", "b_q", "b_k", "b_v", "W_o", "b_o"})
    CHECK(to.find(layer + part));
  std::size_t weights = 0;
  for (const io::Entry& entry : to.tensors)
    if (is_floating(entry.dtype)) weights += count_of(entry.shape);
  // 20 · 72 + 72 of the projections, 24 · 20 + 20 of the output, √6 and the mask's −10000.
  CHECK(weights == 20 * 72 + 72 + 24 * 20 + 20 + 2);
  CHECK(from.tensors.size() == to.tensors.size() + 4);
}

TEST_CASE("reads ONNX tensors of every type and field to their bits", "[cli][onnx]") {
  const Folder folder;
  if (onnx("types " + folder.path("types.onnx") + " " + folder.path("wanted.npz")).code != 0)
    return;
  const io::Contents found = io::open(folder.path("types.onnx")),
                     wanted = io::open(folder.path("wanted.npz"));
  const auto bits_of = [](const io::Contents& contents, const std::string& name) {
    const Tensor tensor = tensor_of(contents, name);
    return std::string(reinterpret_cast<const char*>(tensor.raw()), tensor.bytes());
  };
  std::size_t count = 0;
  for (const io::Entry& entry : wanted.tensors) {
    INFO(entry.name);
    if (entry.name == "bfloat16.bits") continue;
    REQUIRE(found.find(entry.name));
    CHECK(found.find(entry.name)->dtype == entry.dtype);
    CHECK(found.find(entry.name)->shape == entry.shape);
    CHECK(bits_of(found, entry.name) == bits_of(wanted, entry.name));
    ++count;
  }
  // NumPy's archives have numbers without an axis as settings.
  CHECK(count >= 180);
  for (const char* name : {"bfloat16.raw", "bfloat16.typed"}) {
    CHECK(found.find(name)->dtype == DType::bf16);
    CHECK(bits_of(found, name) == bits_of(wanted, "bfloat16.bits"));
  }
  const Result info = run({"info", folder.path("types.onnx")});
  CHECK(info.code == 0);
  // What is bound beside a graph without a layer hides no word of it.
  const Result bound = run({"show", folder.path("types.onnx"),
                            "X=" + in_source("tests/data/pytorch/onnx/split.npz:X"), "-s", "q"});
  CHECK(bound.code == 2);
  CHECK_THAT(bound.err, Catch::Contains("no attention layer was found in the graph"));
  for (const char* named :
       {"words (STRING)", "complex (COMPLEX64)", "FLOAT8E4M3FN", "thin (sparse)"})
    CHECK_THAT(info.out, Catch::Contains(named));
}

TEST_CASE("names anonymous ONNX weights by their node, and keeps the others' names",
          "[cli][onnx]") {
  const Folder folder;
  const std::string model = folder.path("model.onnx"), x = folder.path("X.npy");
  if (onnx("case plain " + model + " " + x + " " + folder.path("w.npz")).code != 0) return;
  const io::Contents contents = io::open(model);
  const io::Entry* weight = contents.find("encoder.layers.3.self_attn.q_proj.MatMul");
  REQUIRE(weight);
  CHECK(weight->own_name.starts_with("onnx::"));
  CHECK(weight->shape == Shape{20, 24});
  CHECK(contents.find("encoder.q_proj.bias"));
  // Both names bind it, and the layer's part is its numbers.
  for (const std::string& name : {weight->name, weight->own_name}) {
    const Result bound = run({"show", "X=" + x, "W_q=" + model + ":" + name, "--num-heads", "4",
                              "W_k=" + model + ":" + name, "--stage", "q"});
    INFO(bound.err);
    CHECK(bound.code == 0);
  }
  const io::Entry* part = contents.find("encoder.layers.3.self_attn.W_q");
  REQUIRE(part);
  CHECK(part->own_name == weight->own_name);
  CHECK(difference(part->read(), weight->read()) == 0);
  // A layer is what its numbers are, whatever it is written to.
  REQUIRE(run({"convert", model, "X=" + x, "--layer", "3", "-o", folder.path("layer.safetensors")})
              .code == 0);
  REQUIRE(run({"dump", folder.path("layer.safetensors"), "-o", folder.path("again.npz")}).code ==
          0);
  const Result same = run({"diff", model, "X=" + x, "--against", folder.path("again.npz")});
  INFO(same.out << same.err);
  CHECK(same.code == 0);
}

namespace {

std::string written(const Folder& folder, const onnx::ModelForm& form, bool with_config = true) {
  const std::string path = folder.path("model.onnx");
  std::ofstream(path, std::ios::binary) << form.graph.bytes();
  if (with_config) std::ofstream(folder.path("config.json")) << form.config;
  return path;
}

} // namespace

TEST_CASE("computes the whole model that the paths of an ONNX graph's nodes name", "[cli][onnx]") {
  const std::vector<int> ids{3, 1, 4, 1, 5};
  for (const onnx::ModelForm& form : onnx::model_forms()) {
    INFO(form.name);
    const Folder folder;
    const std::string model = written(folder, form), out = folder.path("logits.npy");
    const Result result =
        run({"dump", model, "--ids", "3,1,4,1,5", "-s", "logits", "-q", "-o", out});
    INFO(result.err);
    REQUIRE(result.code == 0);
    CHECK_THAT(result.err, !Catch::Contains("warning"));
    const Tensor found = io::open(out).tensors.at(0).read();
    const std::optional<onnx::Value> wanted = onnx::logits_of(form, ids);
    REQUIRE(wanted);
    REQUIRE(found.count() == wanted->count());
    double difference = 0;
    for (std::size_t i = 0; i < found.count(); ++i)
      difference = std::max(difference, std::abs(value_at(found, i) - wanted->data[i]));
    CHECK(difference < 2e-5);
    const Result info = run({"info", model, "--ids", "3,1", "--headers"});
    CHECK_THAT(info.out, !Catch::Contains("ONNX graph "));
    CHECK(run({"show", model, "--ids", "3,1,4", "-l", "1", "-s", "weights"}).code == 0);
  }
}

TEST_CASE("refuses a whole model that an ONNX graph computes otherwise, by the node's name",
          "[cli][onnx]") {
  const auto forms = onnx::model_forms();
  const auto llama = std::ranges::find(forms, "llama", &onnx::ModelForm::name);
  const Folder folder;
  const Result other = run({"predict", written(folder, *llama, false), "--ids", "1,2"});
  CHECK(other.code == 2);
  CHECK_THAT(other.err, Catch::Contains("another epsilon than the model's, at "
                                        "'/model/layers.0/post_attention_layernorm/") &&
                            Catch::Contains("--config FILE"));
  onnx::ModelForm changed = *llama;
  for (onnx::Node& node : changed.graph.nodes)
    if (node.op == "Sigmoid") node.op = "Tanh";
  const Result activation = run({"predict", written(folder, changed), "--ids", "1,2"});
  CHECK(activation.code == 2);
  CHECK_THAT(activation.err, Catch::Contains("the activation is another one than the model's, at "
                                             "'/model/layers.0/mlp/"));
  const Result said = run({"predict", written(folder, *llama), "--ids", "1,2", "--naming", "gpt2"});
  CHECK(said.code == 2);
  CHECK(run({"predict", written(folder, *llama), "--ids", "1,2", "--naming", "llama"}).code == 0);
}

TEST_CASE("a graph with paths is read as its family's layers, without a text, too", "[cli][onnx]") {
  const auto forms = onnx::model_forms();
  for (const onnx::ModelForm& form : forms) {
    INFO(form.name);
    const Folder folder;
    const std::string model = written(folder, form), X = folder.path("X.npy"),
                      described = folder.path("said.json");
    REQUIRE(run({"dump", model, "--ids", "3,1,4", "-s", "layers.1.x", "-q", "-o", X}).code == 0);
    CHECK_THAT(run({"info", model, "--headers"}).out, !Catch::Contains("ONNX graph"));
    const Result said = run({"info", model, "--as-naming"});
    CHECK(said.err == "");
    std::ofstream(described) << said.out;
    const Result own =
        run({"show", model, "X=" + X, "-l", "1", "-s", "output", "--naming", "onnx"});
    CHECK(own.code == 0);
    CHECK_THAT(run({"info", model, "--headers", "--naming", "onnx"}).out,
               Catch::Contains("ONNX graph"));
    for (const std::string& naming : {std::string(), described}) {
      std::vector<std::string> command{"show", model, "X=" + X, "-l", "1", "-s", "output"};
      if (!naming.empty()) command.insert(command.end(), {"--naming", naming});
      const Result shown = run(command);
      INFO(naming << shown.err);
      CHECK(shown.code == 0);
      CHECK(shown.out == own.out);
    }
    const Result predicted =
                     run({"dump", model, "--ids", "3,1,4", "-s", "logits", "-o", "-", "-f", "npy"}),
                 by_file = run({"dump", model, "--ids", "3,1,4", "-s", "logits", "-o", "-", "-f",
                                "npy", "--naming", described});
    CHECK(predicted.out == by_file.out);
    CHECK(by_file.code == 0);
  }
}

TEST_CASE("a graph's names that its numbers contradict are an error, by the node's name",
          "[cli][onnx]") {
  const auto forms = onnx::model_forms();
  onnx::ModelForm form = *std::ranges::find(forms, "llama", &onnx::ModelForm::name);
  const Folder folder;
  const std::string X = folder.path("X.npy");
  REQUIRE(run({"dump", written(folder, form), "--ids", "3,1,4", "-s", "layers.0.x", "-q", "-o", X})
              .code == 0);
  const Result other =
      run({"show", folder.path("model.onnx"), "X=" + X, "-l", "0", "--naming", "gpt2"});
  CHECK(other.code == 2);
  CHECK_THAT(other.err, Catch::Contains("name no layer with the tensors of GPT-2"));
  std::vector<onnx::Node*> nodes;
  for (onnx::Node& node : form.graph.nodes)
    if (node.name.starts_with("/model/layers.0/self_attn/k_proj/") ||
        node.name.starts_with("/model/layers.0/self_attn/v_proj/"))
      nodes.push_back(&node);
  REQUIRE(nodes.size() == 2);
  std::swap(nodes[0]->name, nodes[1]->name);
  const std::string model = written(folder, form);
  const auto shown = [&](const std::string& naming) {
    std::vector<std::string> command{"show", model, "X=" + X, "-l", "0", "-s", "v"};
    if (!naming.empty()) command.insert(command.end(), {"--naming", naming});
    return run(command);
  };
  for (const char* naming : {"", "llama"}) {
    const Result swapped = shown(naming);
    CHECK(swapped.code == 2);
    CHECK_THAT(swapped.err, Catch::Contains("another layer than its names imply") &&
                                Catch::Contains("'/model/layers.0/self_attn/Softmax") &&
                                Catch::Contains("--naming onnx"));
  }
  CHECK(shown("onnx").code == 0);
}

TEST_CASE("a part of an ONNX layer is not the graph's weight of the same name", "[cli][onnx]") {
  const auto forms = onnx::model_forms();
  const auto gemma = std::ranges::find(forms, "gemma3", &onnx::ModelForm::name);
  const Folder folder;
  const std::string model = written(folder, *gemma);
  const std::string name = "model.layers.0.self_attn.q_norm.weight";
  const io::Contents contents = io::open(model);
  const Tensor part = tensor_of(contents, name), own = tensor_of(contents, name + "_2");
  REQUIRE(part.count() == own.count());
  for (std::size_t i = 0; i < own.count(); ++i) // 1 + w
    CHECK(value_at(part, i) == Approx(1 + value_at(own, i)).epsilon(1e-6));
  const Result shown = run({"info", model, "-l", "0", "--headers"});
  CHECK(shown.code == 0);
  CHECK_THAT(shown.out + shown.err, !Catch::Contains("skipped"));
}

TEST_CASE("opens ONNX models with external data of gigabytes by their header", "[cli][onnx]") {
  const Folder folder;
  const std::string model = folder.path("model.onnx");
  if (onnx("sparse " + model + " 5000000000").code != 0) return;
  const io::Contents contents = io::open(model); // nothing is read, and nothing is taken for it
  REQUIRE(contents.find("large.1"));
  CHECK(contents.find("large.1")->shape == Shape{610351, 1024});
  const Result info = run({"info", model, "--headers"});
  INFO(info.err);
  CHECK(info.code == 0);
  CHECK_THAT(info.out, Catch::Contains("610351"));
}
