// Gates of heads, norms of values and of heads' results, keys that are values: the same bits
// however a token is computed, patches of the new steps, and what is wrong in a file. Their numbers
// are held in whole_model_test.cpp against tests/models.

#include "support/files.hpp"
#include "support/run.hpp"
#include "support/sanitizers.hpp"
#include <mha/files/contents.hpp>

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

using namespace mha;
using namespace mha::test;
using Catch::Contains;

namespace {

/// The folder of some variants of tests/models, written once; "" where there is no NumPy.
const std::string& models() {
  static const Folder folder;
  static const std::string path = [] {
    const Result made = shell(
        "/usr/bin/python3 tests/models/make.py " + folder.path() +
        " afmoe afmoe-wide laguna step3p5 step3p5-clamped mimo_v2_flash llama4_text"
        " gemma4_text gemma4_text-e gemma4_text-moe bailing_moe_v2 qwen3_next qwen3_next-wide");
    if (made.code != 0) WARN("no NumPy, so no checkpoints: " << made.err);
    return made.code == 0 ? folder.path() : std::string();
  }();
  return path;
}

std::string model(const std::string& name) {
  return models() + "/" + name;
}

std::string ids_of(std::size_t count, std::size_t from = 0) {
  std::string ids;
  for (std::size_t i = from; i < from + count; ++i)
    ids += fmt::format("{}{}", ids.empty() ? "" : ",", (i * 37 + 11) % 60);
  return ids;
}

io::Contents dumped(const Folder& folder, const std::string& file,
                    const std::vector<std::string>& words) {
  std::vector<std::string> dump{"dump", "-q", "-o", folder.path(file)};
  dump.insert(dump.end(), words.begin(), words.end());
  const Result result = run(dump);
  INFO(words[0] << result.err);
  REQUIRE(result.code == 0);
  return io::open(folder.path(file));
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.bytes() == b.bytes() && std::equal(a.raw(), a.raw() + a.bytes(), b.raw());
}

/// The numbers of stages of tokens, (T, n) or (H, T, n): row `token` of each head.
std::vector<double> row_of(const Tensor& tensor, std::size_t token) {
  const std::size_t width = tensor.shape().back(), T = tensor.shape()[tensor.rank() - 2];
  std::vector<double> row;
  for (std::size_t i = 0; i < tensor.count(); ++i)
    if (i / width % T == token) row.push_back(value_at(tensor, i));
  return row;
}

void refused(const std::vector<std::string>& words, const std::string& text) {
  const Result result = run(words);
  INFO(result.err);
  CHECK(result.code == 2);
  CHECK_THAT(result.err, Contains(text));
}

} // namespace

TEST_CASE("gates: a token's bits depend on no neighbour, thread, part or stage", "[gates]") {
  if (models().empty()) return;
  const std::string stages = "q_norm,q_rope,v,gate,head_out,gated,head_norm,v_norm,output,"
                             "layer_add,router_x,experts_norm,shared_norm,resid_post";
  for (const char* name : {"afmoe", "laguna", "step3p5", "mimo_v2_flash", "llama4_text",
                           "gemma4_text", "gemma4_text-e", "gemma4_text-moe"}) {
    INFO(name);
    const Folder folder;
    const std::size_t T = sanitized ? 30 : 200;
    // Each model lacks some of these steps, which it is told.
    std::vector<std::string> words{model(name), "--ids", ids_of(T)};
    const io::Contents all = dumped(folder, "all.npz", words);
    for (const char* threads : {"1", "2", "5"}) {
      std::vector<std::string> other = words;
      other.insert(other.end(), {"--threads", threads});
      for (const io::Entry& entry : dumped(folder, "threads.npz", other).tensors) {
        INFO(entry.name);
        CHECK(same_bits(entry.read(), all.find(entry.name)->read()));
      }
    }
    // Every step asked for alone, of which only what it needs is read and computed.
    for (const io::Entry& entry : all.tensors) {
      const bool is_third = entry.name.starts_with("layers.2.");
      if (!is_third && !entry.name.starts_with("layers.3.")) continue;
      const std::string stage = entry.name.substr(9);
      if (stages.find(stage) == stages.npos) continue;
      INFO(stage);
      std::vector<std::string> alone = words;
      alone.insert(alone.end(), {"--layer", is_third ? "2" : "3", "-s", stage});
      CHECK(same_bits(tensor_in(dumped(folder, "alone.npz", alone), stage), entry.read()));
    }
    const io::Contents few = dumped(folder, "few.npz", {model(name), "--ids", ids_of(7)});
    for (const char* stage : {"layers.2.output", "layers.2.resid_post", "layers.3.head_out"})
      for (std::size_t t = 0; t < 7; ++t)
        CHECK(row_of(tensor_in(all, stage), t) == row_of(tensor_in(few, stage), t));
  }
}

TEST_CASE("gates: patches of the gate and of what it multiplies", "[gates]") {
  if (models().empty()) return;
  const Folder folder;
  const std::vector<std::string> words{model("laguna"), "--ids", "3,7,9,4", "--layer", "1"};
  const io::Contents clean = dumped(folder, "clean.npz", words);
  const auto patched = [&](const std::string& edit) {
    std::vector<std::string> with = words;
    with.insert(with.end(), {"--patch", "layers.1." + edit});
    return dumped(folder, "patched.npz", with);
  };
  // softplus(0) = ln 2.
  const io::Contents no_gate = patched("gate[2] = 0");
  const Tensor out = tensor_in(no_gate, "head_out"), gated = tensor_in(no_gate, "gated");
  const std::size_t head = out.count() / out.shape()[0];
  for (std::size_t i = 2 * head; i < 3 * head; ++i)
    CHECK(value_at(gated, i) == Approx(value_at(out, i) * std::log(2.0)).epsilon(1e-6));
  CHECK(same_bits(tensor_in(clean, "head_out"), out));
  CHECK_FALSE(same_bits(tensor_in(clean, "output"), tensor_in(no_gate, "output")));
  // A head without its result, said at three places: the same output.
  const Tensor ablated = tensor_in(patched("gated[1] = 0"), "output");
  CHECK(same_bits(ablated, tensor_in(patched("head_out[1] = 0"), "output")));
  const Tensor result = tensor_in(patched("head_result[1] = 0"), "output");
  for (std::size_t i = 0; i < result.count(); ++i)
    CHECK(value_at(result, i) == Approx(value_at(ablated, i)).margin(1e-5));
  // The concatenation is the memory of `gated`.
  const Tensor columns = tensor_in(patched("concat[*,*,3] = 0"), "gated");
  CHECK(value_at(columns, 3) == 0);
  CHECK(value_at(columns, 4) == value_at(tensor_in(clean, "gated"), 4));
}

TEST_CASE("gates: explained, drawn, and refused where they have no sense", "[gates]") {
  if (models().empty()) return;
  const Folder folder;
  const Result told =
      run({"explain", model("laguna"), "--ids", "3,7,9,4", "--layer", "1", "-Q", "2", "-H", "1"});
  INFO(told.out << told.err);
  CHECK(told.code == 0);
  CHECK_THAT(told.out, Contains("gated = ") && Contains("log(1 + exp gate)"));
  for (const char* form : {"text", "svg", "html"}) {
    const Result made =
        std::string(form) == "html"
            ? run({"report", model("laguna"), "--ids", "3,7,9", "-o", folder.path("r.html")})
            : run({"map", model("laguna"), "--ids", "3,7,9", "-f", form, "-o", folder.path(form)});
    INFO(form << made.err);
    CHECK(made.code == 0);
  }
  refused({"show", model("laguna"), "--ids", "3,7", "--layer", "1", "-s", "value_norms"}, "gate");
  refused({"show", model("gemma4_text"), "--ids", "3,7", "--layer", "1", "-s", "gate"},
          "this layer has no gate");
  refused({"predict", model("qwen3_next"), "--ids", "3,7"}, "is not covered as a whole model yet");
}

TEST_CASE("gates: a file whose gate has another shape, or a setting that no model has", "[gates]") {
  if (models().empty()) return;
  const Folder folder;
  std::size_t number = 0;
  const auto says = [&](const std::string& of, const std::string& edits, const std::string& text) {
    const std::string path = folder.path(fmt::format("m{}", number++));
    const Result made =
        shell("/usr/bin/python3 tests/models/edit.py " + model(of) + " " + path + " " + edits);
    INFO(of << " " << edits << made.err);
    REQUIRE(made.code == 0);
    refused({"predict", path, "--ids", "3,7,9"}, text);
  };
  // A bias beside a map that is split has as many numbers as the map has outputs.
  const std::string softmax = "model.layers.3.self_attn.", split = folder.path("split");
  REQUIRE(shell("/usr/bin/python3 tests/models/edit.py " + model("qwen3_next") + " " + split +
                " attention_bias=true +" + softmax + "q_proj.bias=" + softmax + "k_proj.weight")
              .code == 0);
  refused({"show", split, "--layer", "3", "-s", "W_q"},
          "model.layers.3.self_attn.q_proj.bias is (32, 44): 192 numbers expected, as many as "
          "model.layers.3.self_attn.q_proj.weight has outputs");
  const std::string layer = "model.layers.1.self_attn.";
  says("laguna", "+" + layer + "g_proj.weight=" + layer + "v_proj.weight",
       "24 columns, but a gate has one for each of 6 heads or of their 72 values");
  says("laguna", "-" + layer + "g_proj.weight", "g_proj");
  says("afmoe", "-" + layer + "gate_proj.weight", "gate_proj");
  says("laguna", "gating='\"per-token\"'", "gating");
  says("step3p5", "sliding_window='\"wide\"'", "sliding_window");
  says("llama4_text", "attention_chunk_size=-3", "window_chunk is '-3'");
  says("llama4_text", "floor_scale=0", "temperature_length");
}

TEST_CASE("gates: results of a model's own modules are the steps that its file tells", "[gates]") {
  if (models().empty()) return;
  // Queries beside gates (Qwen3-Next), a fused projection that is not by head (Ling), values before
  // their factor (MiMo-V2), the inputs of output projections in a lone layer.
  const Result result = shell("/usr/bin/python3 tests/models/modules.py \"$MHA\" " + models());
  INFO(result.out << result.err);
  CHECK(result.code == 0);
  // Values that have the factor, by the same name.
  const Folder folder;
  const std::string path = model("mimo_v2_flash"), ids = "3,7,9,12", dump = folder.path("v.npz");
  REQUIRE(run({"dump", path, "--ids", ids, "-s", "v", "-o", dump, "-q"}).code == 0);
  // A module's result that is bound, which is before the factor; and beside the values after it.
  const std::string raw = folder.path("raw.npy"), both = folder.path("both.npz");
  REQUIRE(shell("/usr/bin/python3 -c \"import numpy as np; v = np.load('" + dump +
                "')['layers.1.v']; r = v.transpose(1, 0, 2).reshape(v.shape[1], -1) / 0.707; "
                "np.save('" +
                raw + "', r.astype('f4')); np.savez('" + both +
                "', **{'layers.1.v': v, 'model.layers.1.self_attn.v_proj': r.astype('f4')})\"")
              .code == 0);
  for (const std::string& against : {"layers.1.self_attn.v_proj=" + raw, both}) {
    const Result before = run({"diff", path, "--ids", ids, "--layer", "1", "--against", against});
    INFO(against << before.out << before.err);
    CHECK(before.code == 0);
  }
  const Result as_they_are = run({"diff", path, "--ids", ids, "--layer", "1", "--against",
                                  "layers.1.self_attn.v_proj=" + dump + ":layers.1.v"});
  INFO(as_they_are.out << as_they_are.err);
  CHECK(as_they_are.code == 0);
}

TEST_CASE("gates: names of modules and their sides in a lone layer's reference", "[gates]") {
  if (models().empty()) return;
  const Folder folder;
  const std::string path = model("qwen3_next-wide"), expected = path + "/expected.npz",
                    file = folder.path("r.npz");
  // Of `names` each is a name and the stage that is saved by it.
  const auto diff = [&](const std::string& names) {
    const Result made = shell("/usr/bin/python3 -c \"import numpy as np; e = np.load('" + expected +
                              "'); np.savez('" + file +
                              "', **{n: e['layers.3.' + s] for n, s in (" + names + ")})\"");
    REQUIRE(made.code == 0);
    return run({"diff", path, "--layer", "3", "X=" + expected + ":layers.3.resid_pre",
                "--input-norm", "checkpoint", "--against", file});
  };
  const auto code = [&](const std::string& names, int wanted) {
    const Result result = diff(names);
    INFO(names << "\n" << result.out << result.err);
    CHECK(result.code == wanted);
    return result.out;
  };
  // W_o forgotten: the heads are as wide together as the model.
  code("('attn.output', 'concat'), ('k', 'k')", 1);
  code("('self_attn.output', 'concat'), ('k', 'k')", 1);
  code("('A.output', 'output'), ('context.output', 'output')", 0);
  code("('self_attn.o_proj.input', 'concat'), ('self_attn.q_proj.input', 'x')", 0);
  const std::string beside =
      code("('input_layernorm.input', 'resid_pre'), ('mlp.output', 'x'), ('k', 'k')", 0);
  CHECK_THAT(beside, Contains("mlp.output (no step of attention alone)"));
  // A port that splits q_proj itself.
  code("('q_proj', 'q'), ('k', 'k')", 0);
  code("('q_proj', 'gate'), ('k', 'k')", 1);
}

TEST_CASE("gates: a bias without its gate", "[gates]") {
  const Folder folder;
  refused({"show", "-s", "output",
           folder.write("layer.json", R"({"x": [[1, 2], [3, 4]], "num_heads": 1, "b_gate": [1, 2],
             "W_q": [[1, 0], [0, 1]], "W_k": [[1, 0], [0, 1]], "W_v": [[1, 0], [0, 1]]})")},
          "b_gate is the bias of a gate, but there is no W_gate");
}

TEST_CASE("gates: what a port gets wrong is named", "[gates]") {
  if (models().empty() || sanitized) return;
  const Result result =
      shell("/usr/bin/python3 tests/models/ports.py \"$MHA\" " + models() +
            " --model afmoe-wide --model laguna --model step3p5-clamped --model mimo_v2_flash"
            " --model llama4_text --model gemma4_text --model qwen3_next-wide --capture all"
            " --capture states");
  INFO(result.out << result.err);
  CHECK(result.code == 0);
}

TEST_CASE("gates: direct effects, notes and one query's temperature", "[gates]") {
  if (models().empty()) return;
  // What each layer adds is multiplied by its factor of the stream and by later ones.
  const std::string ids = "3,7,9,12";
  const auto parsed = [](const std::vector<std::string>& words) {
    const Result result = run(words);
    INFO(result.err);
    REQUIRE(result.code == 0);
    return nlohmann::json::parse(result.out);
  };
  const auto effects = parsed({"effects", model("gemma4_text"), "--ids", ids, "-f", "json", "-q"});
  double sum = 0;
  for (const auto& row : effects)
    if (row["part"] != "head" && row["part"] != "set" && row["direct"].is_number())
      sum += row["direct"].get<double>();
  const auto next = parsed({"predict", model("gemma4_text"), "--ids", ids, "--top", "1", "-f",
                            "json", "-q"})["predictions"][0]["next"][0];
  constexpr double cap = 7; // final_logit_softcapping
  CHECK(cap * std::tanh(sum / cap) == Approx(next["logit"].get<double>()).epsilon(1e-5));

  const auto told = [](const std::vector<std::string>& words) {
    const Result result = run(words);
    return result.out + result.err;
  };
  CHECK_THAT(told({"circuits", model("laguna")}), Contains("OV is without it"));
  CHECK_THAT(told({"circuits", model("gemma4_text")}), Contains("OV is without these norms"));
  CHECK_THAT(told({"explain", model("llama4_text"), "--ids", "1,5,6,7,9,9,8,7,6,5", "--layer", "3",
                   "-H", "0", "-Q", "9"}),
             Contains("scale 1/√12 = 0.2887 · temperature 1.11") &&
                 Contains("scaled = q·k / √12 · 1.11"));
  CHECK_THAT(
      told({"explain", model("gemma4_text"), "--ids", ids, "--layer", "1", "-H", "0", "-Q", "3"}),
      Contains("head_out = Σ α v_norm"));

  const Folder folder;
  const std::string layer = in_source("data/quickstart.json"),
                    positions = folder.write("p.json", R"({"positions": [0, 7, 63]})"),
                    norm = folder.write("n.json", R"({"head_norm.weight": [1, 1]})");
  for (const auto& [words, why] :
       {std::pair<std::vector<std::string>, const char*>{{"--gate-activation", "silu"},
                                                         "there is no gate"},
        {{"--temperature-length", "5"}, "temperature is 0"},
        {{positions, "--temperature", "1", "--temperature-length", "1"}, nullptr},
        {{"--rope-offset", "3", "--temperature", "1", "--temperature-length", "1"}, nullptr},
        {{norm, "--qk-norm-eps", "10"}, nullptr}}) {
    std::vector<std::string> show{"show", layer, "-s", "output"};
    show.insert(show.end(), words.begin(), words.end());
    const Result result = run(show);
    INFO(words.back() << result.err);
    CHECK(result.code == 0);
    if (why)
      CHECK_THAT(result.err, Contains(std::string("changes nothing: ") + why));
    else
      CHECK(result.err.find("nothing") == result.err.npos);
  }
}
