// A whole model against another implementation: the first layer that differs, what grows from
// rounding, and Transformers' hidden_states, the last of which is normed.

#include "support/files.hpp"
#include "support/run.hpp"

#include <catch2/catch.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
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

/// The text without its line ends.
std::string flat(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
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
  // Layer 2's feed-forward is another one: the layers after it follow.
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
  CHECK_THAT(flat(shape.out),
             Contains("not compared: ") && Contains("layers.2.weights is (6, 4, 4)"));
  CHECK_THAT(shape.out,
             Contains("What was compared agrees; steps of the reference have another shape"));
  const Result ends = edited("a['logits'] = np.ones((3, 7))");
  CHECK(ends.code == 1);
  CHECK_THAT(flat(ends.out), Contains("logits is (3, 7)"));
  const Result misspelt = edited("a['layers.3.wieghts'] = a.pop('layers.3.weights')");
  CHECK(misspelt.code == 2); // a step of the reference went unread
  CHECK_THAT(flat(misspelt.out), Contains("layers.3.wieghts (is it weights?)"));
  const Result beyond = edited("a['layers.7.weights'] = a['layers.3.weights']");
  CHECK_THAT(flat(beyond.out), Contains("the model's layers are 0 to 3"));
  CHECK(compared("data/bard-llama", other, {"--strict"}).code == 2);
}

TEST_CASE("whole diff: L hidden states of L layers are read by their numbers") {
  const Folder folder;
  const std::string path = folder.path("states.safetensors");
  for (const std::string model : {"data/bard-gpt2", "data/bard-bert"}) {
    const std::vector<Tensor> all = states_of(model, folder);
    const std::vector<Tensor> first(all.begin(), all.begin() + 4), last(all.begin() + 1, all.end());
    const auto listed = [&](const std::vector<Tensor>& states, std::size_t from) {
      std::map<std::string, Tensor> named;
      for (std::size_t i = 0; i < states.size(); ++i)
        named[fmt::format("hidden_states.{}", i + from)] = states[i];
      write_tensors(path, named);
    };
    // Which state is missing, and from what number the others are counted.
    for (const auto& [states, from] : {std::pair(first, 0), {last, 0}, {last, 1}}) {
      listed(states, static_cast<std::size_t>(from));
      const Result result = compared(model, path);
      INFO(model << " " << from << "\n" << result.out << result.err);
      CHECK(result.code == 0);
    }
    for (const std::vector<Tensor>& states : {first, last}) {
      write_tensors(path, {{"hidden_states", stacked(states)}});
      const Result result = compared(model, path);
      INFO(model << "\n" << result.out << result.err);
      CHECK(result.code == 0);
    }
    // A mistake is found whichever is missing.
    std::vector<Tensor> wrong = first;
    wrong[2] = copy_of(view_of(wrong[2]));
    for (std::size_t i = 0; i < wrong[2].count(); i += 3) wrong[2].as_mutable<double>()[i] += 0.5;
    listed(wrong, 0);
    CHECK(compared(model, path).code == 1);
    listed(all, 1);
    const Result beyond = compared(model, path);
    CHECK(beyond.code == 2);
    CHECK_THAT(beyond.err, Contains("hidden_states.5") && Contains("5 states are expected"));
  }
}

TEST_CASE("whole diff: a stage without a layer's number is no layer's where there are several") {
  const Folder folder;
  const std::string model = "data/bard-llama", bare = folder.path("bare.npz"),
                    own = folder.path("own.npz");
  REQUIRE(
      run({"dump", model, "--ids", ids, "--layer", "2", "-q", "-s", "weights,output", "-o", bare})
          .code == 0);
  REQUIRE(run({"dump", model, "--ids", ids, "-q", "-o", own}).code == 0);
  for (const char* command : {"diff", "diagnose"})
    for (const std::string& reference : {bare, "weights=" + bare, "q=" + own + ":layers.1.q"}) {
      const Result result = run({command, model, "--ids", ids, "--against", reference});
      INFO(command << " " << reference << "\n" << result.out << result.err);
      CHECK(result.code == 2);
      CHECK_THAT(result.err, Contains("of which layer?") || Contains("layers.N.STAGE"));
      const Result layers = run({command, "data/induction", "--layer", "all",
                                 "X=data/induction/hidden.npz:layers.{layer}", "--against",
                                 "data/induction/expected/layer0.npz"});
      CHECK(layers.code == 2);
      CHECK_THAT(layers.err, Contains("of which layer?"));
    }
  // Of one layer it is clear, and so it is where a path gives the layer.
  CHECK(run({"diff", model, "--ids", ids, "--layer", "2", "--against", bare}).code == 0);
  REQUIRE(run({"dump", model, "--ids", ids, "--layer", "0-3", "-q", "-s", "weights", "-o",
               folder.path("w{layer}.npz")})
              .code == 0);
  for (const std::string& reference :
       {folder.path("w{layer}.npz"), "weights=" + folder.path("w{layer}.npz")}) {
    const Result result = compared(model, reference);
    INFO(reference << result.out << result.err);
    CHECK(result.code == 0);
  }
}

TEST_CASE(
    "whole diff: names that porters have are compared, and nothing is passed over in silence") {
  const Folder folder;
  const std::string own = folder.path("own.npz");
  struct Naming {
    const char* model;
    const char* program; ///< of a dict a of our stages, fills a dict o
    std::size_t stages;  ///< compared of each layer
  };
  const std::string rows =
      "r = lambda v: v.transpose(1, 0, 2).reshape(1, v.shape[1], -1); o = {}; ";
  const Naming namings[]{
      {"data/bard-llama",
       "[o.update({f'ffn_inp-{n}': a[f'layers.{n}.residual'], f'ffn_norm-{n}': "
       "a[f'layers.{n}.mlp_x'],"
       " f'ffn_gate-{n}': a[f'layers.{n}.mlp_pre'], f'ffn_up-{n}': a[f'layers.{n}.mlp_up'],"
       " f'ffn_swiglu-{n}': a[f'layers.{n}.mlp_act'], f'ffn_out-{n}': a[f'layers.{n}.mlp_out'],"
       " f'l_out-{n}': a[f'layers.{n}.resid_post'], f'norm-{n}': a[f'layers.{n}.x']}) for n in "
       "range(4)];"
       " o.update(inp_embd=a['embed'], result_norm=a['final'], result_output=a['logits'])",
       7},
      {"data/bard-llama",
       "[o.update({f'model.layers.{n}': a[f'layers.{n}.resid_post'][None],"
       " f'model.layers.{n}.input': a[f'layers.{n}.resid_pre'],"
       " f'model.layers.{n}.self_attn.qkv_proj': np.concatenate([r(a[f'layers.{n}.{s}']) for s in "
       "'qkv'], -1),"
       " f'model.layers.{n}.mlp.gate_up_proj': np.concatenate([a[f'layers.{n}.mlp_pre'], "
       "a[f'layers.{n}.mlp_up']], -1),"
       " f'model.layers.{n}.mlp.down_proj.input': a[f'layers.{n}.mlp_act'],"
       " f'model.layers.{n}.post_attention_layernorm': a[f'layers.{n}.mlp_x']}) for n in range(4)];"
       " o['lm_head'] = a['logits']",
       9},
      {"data/bard-gpt2",
       "[o.update({f'transformer.h.{n}.output.0': a[f'layers.{n}.resid_post'],"
       " f'transformer.h.{n}.mlp.c_proj': a[f'layers.{n}.mlp_out'],"
       " f'transformer.h.{n}.attn.c_proj': a[f'layers.{n}.output'],"
       " f'transformer.h.{n}.ln_2': a[f'layers.{n}.mlp_x']}) for n in range(4)];"
       " o.update({'transformer.ln_f': a['final'], 'transformer.drop': a['embed'],"
       " 'transformer.wte': a['embed'], 'attentions': np.stack([a[f'layers.{n}.weights'][None] for "
       "n in range(4)])})",
       5},
      {"data/bard-bert",
       "[o.update({f'bert.encoder.layer.{n}.output': a[f'layers.{n}.resid_post'],"
       " f'bert.encoder.layer.{n}.output.dense': a[f'layers.{n}.mlp_out'],"
       " f'bert.encoder.layer.{n}.intermediate.dense': a[f'layers.{n}.mlp_pre'],"
       " f'bert.encoder.layer.{n}.attention.output': a[f'layers.{n}.mlp_x'],"
       " f'bert.encoder.layer.{n}.attention.output.dense': a[f'layers.{n}.output'],"
       " f'bert.encoder.layer.{n}.attention.self': a[f'layers.{n}.concat']}) for n in range(4)]",
       6},
  };
  for (const Naming& naming : namings) {
    REQUIRE(run({"dump", naming.model, "--ids", ids, "-q", "-o", own}).code == 0);
    const std::string path = folder.path("named.npz");
    const auto saved = [&](const std::string& more) {
      REQUIRE(shell("/usr/bin/python3 -c \"import numpy as np; a = dict(np.load('" + own + "')); " +
                    rows + naming.program + "; " + more + "np.savez('" + path + "', **o)\"")
                  .code == 0);
      return compared(naming.model, path);
    };
    const Result right = saved("");
    INFO(naming.program << "\n" << right.out << right.err);
    CHECK(right.code == 0);
    CHECK_THAT(flat(right.out), Contains("Every layer agrees") && Contains("compared: "));
    const nlohmann::json json =
        nlohmann::json::parse(compared(naming.model, path, {"--format", "json"}).out);
    CHECK(json["layers.2"]["stages"].size() == naming.stages);
    // Each of them that is wrong is a difference, and one that has no name is reported.
    const Result wrong = saved("k = [i for i in o if '2' in i][0]; o[k] = o[k] + 1; ");
    INFO(wrong.out << wrong.err);
    CHECK(wrong.code == 1);
    CHECK_THAT(wrong.out, Contains("differs"));
    const Result unknown = saved("o['my.tensor'] = a['layers.0.resid_post']; ");
    CHECK(unknown.code == 2);
    CHECK_THAT(flat(unknown.out), Contains("not compared:") && Contains("my.tensor") &&
                                      !Contains("Every layer agrees"));
  }
}

TEST_CASE("whole diff: one mistake is no second one, and a second one is told") {
  const Folder folder;
  const std::string own = folder.path("own.npz"), other = folder.path("other.npz");
  const std::string model = "data/bard-gpt2";
  REQUIRE(run({"dump", model, "--ids", ids, "-q", "-o", own}).code == 0);
  REQUIRE(run({"dump", model, "--ids", "65,300,12,7,90,42", "-q", "-o", other}).code == 0);
  const Result token = compared(model, other);
  INFO(token.out);
  CHECK(token.code == 2); // a dump holds its ids: another text is reported first
  CHECK_THAT(token.err, Contains("this text's"));
  REQUIRE(run({"dump", model, "--ids", ids, "-q", "-o", other,
               "layers.1.mlp_act=" + own + ":layers.0.mlp_act",
               "layers.3.mlp_act=" + own + ":layers.0.mlp_act"})
              .code == 0);
  const Result two = compared(model, other);
  INFO(two.out);
  CHECK_THAT(flat(two.out), Contains("layer 1 is the first that differs, in mlp_act") &&
                                Contains("layer 3 (in mlp_act) also differs by itself"));
}

TEST_CASE("whole diff: a forgotten text is the reference's own, or asked for") {
  const Folder folder;
  const std::string own = folder.path("own.npz"), bare = folder.path("logits.npy");
  for (const std::string& path : {own, bare})
    REQUIRE(run({"dump", "data/bard-gpt2", "--ids", ids, "-s", "logits", "-q", "-o", path}).code ==
            0);
  for (const char* command : {"diff", "diagnose"}) {
    const Result result = run({command, "data/bard-gpt2", "--against", bare});
    CHECK(result.code == 2);
    CHECK(one_line(result.err));
    CHECK_THAT(result.err, Contains("give the reference's text with --text or --ids"));
    const Result found = run({command, "data/bard-gpt2", "--against", own}); // has its ids
    CHECK(found.code == 0);
    CHECK_THAT(found.err, Contains("no text given: using the reference's own, --ids " + own));
  }
}

TEST_CASE("whole diff: another text is said first, in one sentence") {
  const Folder folder;
  const std::string path = folder.path("other.npz");
  REQUIRE(
      run({"dump", "data/bard-llama", "--ids", "65,300,12,8,90,41,41", "-q", "-o", path}).code ==
      0);
  const Result result = compared("data/bard-llama", path);
  CHECK(result.code == 2);
  CHECK(one_line(result.err));
  CHECK_THAT(result.err, Contains("65,300,12,8,90,41,41, this text's 65,300,12,7,90,41"));
}

TEST_CASE(
    "whole diff: logits of more columns than the vocabulary; captures that were not computed") {
  const Folder folder;
  const std::string own = folder.path("own.npz"), other = folder.path("other.npz");
  REQUIRE(run({"dump", "data/bard-llama", "--ids", ids, "-s", "resid_post,logits", "-q", "-o", own})
              .code == 0);
  const auto edited = [&](const std::string& python) {
    REQUIRE(shell("/usr/bin/python3 -c \"import numpy as np; a = dict(np.load('" + own + "')); " +
                  python + "; np.savez('" + other + "', **a)\"")
                .code == 0);
    return compared("data/bard-llama", other);
  };
  const Result wider = edited("a['logits'] = np.pad(a['logits'], ((0, 0), (0, 8)))");
  INFO(wider.out << wider.err);
  CHECK(wider.code == 0);
  CHECK_THAT(wider.err, Contains("is 1032 wide: compared are the vocabulary's first 1024"));
  const Result narrower = edited("a['logits'] = a['logits'][:, :1000]");
  CHECK(narrower.code == 0);
  CHECK_THAT(flat(narrower.err), Contains("logits: 1000 of the vocabulary's 1024 columns"));
  const Result zeros = edited("a['layers.1.resid_post'] *= 0");
  CHECK(zeros.code == 2);
  CHECK_THAT(zeros.out, Contains("all zeros"));
}
