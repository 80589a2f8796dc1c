// diff --weights: a checkpoint beside itself in other containers, types, orders and names.

#include "support/files.hpp"
#include "support/run.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include <map>

using namespace mha;
using namespace mha::test;

namespace {

bool written(const std::string& arguments) {
  const Result made = shell("/usr/bin/python3 tests/models/" + arguments);
  if (made.code != 0) WARN("no NumPy, so nothing to compare with: " << made.err);
  return made.code == 0;
}

/// The tensors of the comparison by A's name, or B's.
struct Compared {
  int code = 0;
  nlohmann::json all;
  std::map<std::string, nlohmann::json> tensors;

  std::string status(const std::string& name) const { return tensors.at(name)["status"]; }
  std::string detail(const std::string& name) const {
    const nlohmann::json& text = tensors.at(name)["detail"];
    return text.is_null() ? "" : text.get<std::string>();
  }
  std::size_t count(const std::string& status) const {
    std::size_t n = 0;
    for (const auto& [name, tensor] : tensors) n += tensor["status"] == status;
    return n;
  }
};

Compared compared(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "diff");
  arguments.insert(arguments.end(), {"--weights", "-f", "json"});
  const Result result = run(arguments);
  INFO(result.err);
  REQUIRE(result.code < 2);
  Compared found{result.code, nlohmann::json::parse(result.out), {}};
  for (const nlohmann::json& tensor : found.all["tensors"])
    found.tensors[tensor["a"].is_null() ? tensor["b"] : tensor["a"]] = tensor;
  CHECK(found.all["equal"] == (found.code == 0));
  return found;
}

} // namespace

TEST_CASE("weights: what was done to each tensor is named") {
  const Folder folder;
  if (!written("changed_weights.py data/bard-llama " + folder.path())) return;
  const std::string whole = folder.path("whole");
  const Compared found = compared({whole, folder.path("changed")});
  CHECK(found.code == 1);
  CHECK(found.all["paired_by"] == "name");
  const auto check = [&](const std::string& name, const char* status, const std::string& detail) {
    INFO(name);
    CHECK(found.status(name) == status);
    if (!detail.empty()) CHECK(found.detail(name) == detail);
  };
  const std::string one = "model.layers.0.", two = "model.layers.1.", three = "model.layers.2.";
  check(one + "self_attn.q_proj.weight", "permuted", "half to interleaved, in 6 heads");
  check(one + "self_attn.k_proj.weight", "permuted", "half to interleaved, in 2 heads");
  check(one + "self_attn.v_proj.weight", "permuted", "heads of 16 rows in the order 1, 0");
  check(one + "self_attn.o_proj.weight", "permuted", "transposed");
  check(one + "mlp.gate_proj.weight", "permuted", "transposed");
  check(one + "input_layernorm.weight", "offset", "− 1");
  check(one + "mlp.down_proj.weight", "scaled", "× 0.125");
  check(two + "self_attn.o_proj.weight", "permuted",
        "heads of 16 columns in the order 1, 0, 2, 3, 4, 5");
  check(two + "mlp.up_proj.weight", "permuted", "");
  CHECK(found.detail(two + "mlp.up_proj.weight").starts_with("rows in another order: "));
  check(two + "mlp.down_proj.weight", "differs", "");
  check(three + "mlp.up_proj.weight", "shape", "");
  check(three + "mlp.down_proj.weight", "only in A", "");
  check("extra.weight", "only in B", "");
  CHECK(found.count("equal") == found.tensors.size() - 13);
  const double relative = found.tensors.at(two + "mlp.down_proj.weight")["relative"];
  CHECK((relative > 0.1 && relative < 0.2)); // 0.01 of numbers around 0.07

  // The other way round: what was done is undone.
  const Compared back = compared({folder.path("changed"), whole});
  CHECK(back.detail(one + "self_attn.q_proj.weight") == "interleaved to half, in 6 heads");
  CHECK(back.detail(one + "input_layernorm.weight") == "+ 1");
  CHECK(back.detail(one + "mlp.down_proj.weight") == "× 8");
}

TEST_CASE("weights: a coarser type is equal where each number is the nearest of it") {
  const Folder folder;
  if (!written("changed_weights.py data/bard-llama " + folder.path())) return;
  const Compared rounded = compared({folder.path("whole"), folder.path("rounded")});
  CHECK(rounded.code == 0);
  CHECK(rounded.count("equal") == rounded.tensors.size());
  CHECK(rounded.detail("model.norm.weight") == "rounded to bfloat16");
  const Compared bare = compared({folder.path("whole"), folder.path("bare")});
  CHECK((bare.code == 0 && bare.tensors.size() == 39));
}

TEST_CASE("weights: other names are paired as a family and a description read them") {
  const Folder folder;
  if (!written("changed_weights.py data/bard-llama " + folder.path())) return;
  const std::string naming = folder.path("other/naming.json");
  const Compared found = compared({folder.path("whole"), folder.path("other"), "--naming", naming});
  CHECK((found.code == 0 && found.count("equal") == 39));
  CHECK(found.all["paired_by"] == "role");
  // A tensor that is lost under other names: the model cannot be read, and it is named.
  const Result lost =
      run({"diff", folder.path("changed"), folder.path("other"), "--weights", "--naming", naming});
  CHECK(lost.code == 2);
  CHECK(lost.err.find("model.layers.2.mlp.down_proj.weight is missing") != std::string::npos);
  const Result nameless = run({"diff", folder.path("whole"), folder.path("other"), "--weights"});
  CHECK(nameless.code == 2);
  CHECK(nameless.err.find("--naming FILE.json") != std::string::npos);
}

TEST_CASE("weights: a checkpoint and its GGUF") {
  const Folder folder;
  for (const char* type : {"F16", "Q8_0"})
    if (!written("gguf.py model data/bard-llama " + folder.path(type) + ".gguf " + type)) return;
  const std::string llama = in_source("data/bard-llama");
  const std::string q = "model.layers.0.self_attn.q_proj.weight",
                    k = "model.layers.0.self_attn.k_proj.weight";
  const Compared f16 = compared({llama, folder.path("F16") + ".gguf"});
  CHECK((f16.code == 0 && f16.count("equal") == 39));
  CHECK(f16.detail(q) ==
        "permuted in the file, half to interleaved, in 6 heads, and put back when read");
  CHECK(f16.detail(k).find("in 2 heads") != std::string::npos);
  const Compared q8 = compared({llama, folder.path("Q8_0") + ".gguf"});
  CHECK((q8.code == 0 && q8.count("close") == 30 && q8.count("equal") == 9));
  const nlohmann::json steps = q8.tensors.at(q)["steps"];
  CHECK((steps["median"] > 0.2 && steps["median"] < 0.3)); // uniform in half a step: 0.25
  CHECK((steps["p99"] > 0.48 && steps["p99"] <= 0.51));
  CHECK(steps["above_one"] == 0);
  CHECK(q8.tensors.at(q)["types"] == nlohmann::json::array({"float16", "Q8_0"}));
  for (const char* type : {"F16", "Q8_0"}) {
    const Compared as_file = compared({llama, folder.path(type) + ".gguf", "--gguf-order"});
    CHECK(as_file.code == 1);
    CHECK(as_file.count("permuted") == 8);
    CHECK(as_file.status(q) == "permuted");
    CHECK(as_file.detail(q) == "half to interleaved, in 6 heads");
    CHECK(as_file.detail(k) == "half to interleaved, in 2 heads");
  }
  // A changed checkpoint is found after blocks, too.
  if (!written("changed_weights.py data/bard-llama " + folder.path("c"))) return;
  const Compared changed = compared({folder.path("c/changed"), folder.path("Q8_0") + ".gguf"});
  CHECK(changed.code == 1);
  CHECK(changed.detail(q) == "interleaved to half, in 6 heads");
  CHECK(changed.status("model.layers.0.mlp.down_proj.weight") == "scaled");
  CHECK(changed.status("model.layers.1.mlp.down_proj.weight") == "differs");
  CHECK(changed.status("model.layers.0.mlp.gate_proj.weight") == "permuted");
}

TEST_CASE("weights: tables and CSV say the same, and what changes nothing is refused") {
  const std::string gpt2 = in_source("data/bard-gpt2");
  const Result table = run({"diff", gpt2, gpt2, "--weights"});
  CHECK(table.code == 0);
  CHECK(table.out.find("52 tensors: 52 equal") != std::string::npos);
  const Result csv = run({"diff", gpt2, gpt2, "--weights", "-f", "csv"});
  CHECK(csv.code == 0);
  CHECK(csv.out.starts_with("a,b,status,detail,type_a,type_b,shape_a,shape_b,largest,relative,"
                            "median,p99,above_half,above_one\n"));
  CHECK(csv.out.find("transformer.ln_f.bias,transformer.ln_f.bias,equal,,float16,float16,") !=
        std::string::npos);
  for (const std::vector<std::string>& wrong :
       std::vector<std::vector<std::string>>{{"diff", gpt2, "--weights"},
                                             {"diff", gpt2, gpt2, gpt2, "--weights"},
                                             {"diff", gpt2, gpt2, "--weights", "--against", gpt2},
                                             {"diff", gpt2, gpt2, "--weights", "--layer", "0"},
                                             {"diff", gpt2, gpt2, "--weights", "--text", "a"},
                                             {"diff", gpt2, "X=" + gpt2, "--weights"},
                                             {"diff", gpt2, "/nonexistent", "--weights"}})
    CHECK(run(wrong).code == 2);
}
