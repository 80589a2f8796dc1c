// Mixtures of experts: the same bits however a token is computed, patches, measures, pictures, and
// what is wrong in a file. Their numbers are held in whole_model_test.cpp against tests/models.

#include "support/files.hpp"
#include "support/run.hpp"
#include "support/sanitizers.hpp"
#include <mha/files/contents.hpp>

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <set>

using namespace mha;
using namespace mha::test;
using Catch::Contains;
using Catch::StartsWith;

namespace {

/// The folder of some variants of tests/models, written once; "" where there is no NumPy.
const std::string& models() {
  static const Folder folder;
  static const std::string path = [] {
    const Result made = shell("/usr/bin/python3 tests/models/make.py " + folder.path() +
                              " mixtral gpt_oss gpt_oss-mxfp4 deepseek_v3 qwen2_moe-norm");
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

const std::string stages =
    "router,experts,expert_weights,mlp_pre,mlp_act,expert_out,mlp_out,resid_post";

std::string dumped(const Folder& folder, const std::string& name,
                   const std::vector<std::string>& words) {
  const std::string out = folder.path(name);
  std::vector<std::string> dump{"dump", "-q", "-o", out, "-s", stages};
  dump.insert(dump.end(), words.begin(), words.end());
  // DeepSeek's first layer is dense.
  if (words[0].ends_with("deepseek_v3")) dump.insert(dump.end(), {"--layer", "1,2"});
  const Result result = run(dump);
  INFO(result.err);
  REQUIRE(result.code == 0);
  return out;
}

/// Rows [first, first + count) of every stage of `whole` are the rows of `part`.
void check_rows(const std::string& whole_path, const std::string& part_path, std::size_t first,
                std::size_t rows, std::size_t item = 0, std::size_t items = 1) {
  const io::Contents whole = io::open(whole_path), part = io::open(part_path);
  std::size_t compared = 0;
  for (const io::Entry& entry : part.tensors) {
    if (!entry.name.starts_with("layers.")) continue;
    INFO(entry.name);
    const Tensor a = whole.find(entry.name)->read(), b = entry.read();
    const std::size_t row = b.bytes() / rows, all = a.bytes() / items;
    REQUIRE(all % row == 0);
    const std::byte* const from = a.raw() + item * all + first * row;
    CHECK(std::equal(b.raw(), b.raw() + b.bytes(), from));
    ++compared;
  }
  CHECK(compared > 10);
}

void refused(const std::vector<std::string>& words, const std::string& text) {
  const Result result = run(words);
  INFO(result.err);
  CHECK(result.code == 2);
  CHECK_THAT(result.err, Contains(text));
}

} // namespace

TEST_CASE("mixture: a token's bits depend on no neighbour, thread or part", "[mixture]") {
  if (models().empty()) return;
  for (const char* name : {"mixtral", "deepseek_v3", "gpt_oss", "gpt_oss-mxfp4"}) {
    INFO(name);
    const Folder folder;
    const std::size_t T = sanitized ? 40 : 300;
    const std::string text = ids_of(T);
    const std::string all = dumped(folder, "all.npz", {model(name), "--ids", text});
    for (const char* threads : {"1", "2", "5"}) {
      const std::string other =
          dumped(folder, "threads.npz", {model(name), "--ids", text, "--threads", threads});
      check_rows(all, other, 0, T);
    }
    // The beginning of a text alone, and in a batch beside others.
    const std::string few = dumped(folder, "few.npz", {model(name), "--ids", ids_of(7)});
    check_rows(all, few, 0, 7);
    const std::string one = dumped(folder, "one.npz", {model(name), "--ids", ids_of(1)});
    check_rows(all, one, 0, 1);
    const std::string some =
        dumped(folder, "some.npz", {model(name), "--ids", text, "-Q", "11-13"});
    check_rows(all, some, 11, 3);
    const std::string lone = dumped(folder, "lone.npz", {model(name), "--ids", ids_of(9, 50)});
    const std::string batch =
        dumped(folder, "batch.npz",
               {model(name), "--ids", ids_of(9), "--ids", ids_of(9, 50), "--ids", ids_of(9, 7)});
    check_rows(batch, lone, 0, 9, 1, 3);
  }
}

TEST_CASE("mixture: a patch of the choice takes the weights with it", "[mixture]") {
  if (models().empty()) return;
  const Folder folder;
  const std::string chosen = folder.path("experts.npy");
  REQUIRE(shell("/usr/bin/python3 -c \"import numpy as np; np.save('" + chosen +
                "', np.array([[3., 0.]]))\"")
              .code == 0);
  const std::vector<std::string> words{model("mixtral"), "--ids", "3,7,9", "--layer", "1"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), words.begin(), words.end());
    return more;
  };
  const std::string before = dumped(folder, "before.npz", words),
                    after = dumped(folder, "after.npz",
                                   with({"--patch", "layers.1.experts[*,-1] = " + chosen}));
  const io::Contents clean = io::open(before), changed = io::open(after);
  const auto value = [](const io::Contents& of, const char* name) { return tensor_in(of, name); };
  const Tensor experts = value(changed, "experts"), weights = value(changed, "expert_weights");
  CHECK(value_at(experts, 4) == 3);
  CHECK(value_at(experts, 5) == 0);
  CHECK(value_at(weights, 4) + value_at(weights, 5) == Approx(1).epsilon(1e-6));
  CHECK(value_at(experts, 0) == value_at(value(clean, "experts"), 0));
  const Tensor a = value(clean, "mlp_out"), b = value(changed, "mlp_out");
  const std::size_t row = a.bytes() / 3;
  CHECK(std::equal(a.raw(), a.raw() + 2 * row, b.raw())); // the other tokens
  CHECK_FALSE(std::equal(a.raw() + 2 * row, a.raw() + 3 * row, b.raw() + 2 * row));
  refused({"show", model("mixtral"), "--ids", "3,7,9", "--layer", "1", "--patch",
           "layers.1.experts[*,0] = 2"},
          "expert 2 is there twice: distinct experts expected");
  refused({"show", model("mixtral"), "--ids", "3,7,9", "--layer", "1", "--patch",
           "layers.1.experts[*,0,0] = 70"},
          "70 is not one of the");
  refused({"show", model("mixtral"), "--ids", "3,7,9", "--layer", "1", "--patch",
           "layers.1.experts[*,0,0] = 0.5"},
          "a whole number from 0 to");
  CHECK(run({"predict", model("mixtral"), "--ids", "3,7,9", "--patch", "layers.1.expert_out *= 0"})
            .code == 0);
}

TEST_CASE("mixture: experts are measured and drawn", "[mixture]") {
  if (models().empty()) return;
  const Result result =
      run({"stats", model("deepseek_v3"), "--ids", ids_of(12), "--experts", "-f", "json"});
  INFO(result.err);
  REQUIRE(result.code == 0);
  const Folder folder;
  const io::Contents all =
      io::open(dumped(folder, "all.npz", {model("deepseek_v3"), "--ids", ids_of(12)}));
  std::set<std::size_t> layers;
  for (const auto& row : nlohmann::json::parse(result.out)) {
    const auto layer = row["layer"].get<std::size_t>();
    const auto expert = row["expert"].get<double>();
    layers.insert(layer);
    const Tensor experts = tensor_in(all, fmt::format("layers.{}.experts", layer)),
                 weights = tensor_in(all, fmt::format("layers.{}.expert_weights", layer));
    double tokens = 0, weight = 0, sum = 0;
    for (std::size_t i = 0; i < experts.count(); ++i) {
      const bool is_own = value_at(experts, i) == expert;
      tokens += is_own, weight += is_own ? value_at(weights, i) : 0, sum += value_at(weights, i);
    }
    CHECK(row["tokens"].get<double>() == tokens);
    CHECK(row["load"].get<double>() == Approx(tokens / 12));
    CHECK(row["share"].get<double>() == Approx(weight / sum).epsilon(1e-5));
    CHECK(row["router_entropy"].get<double>() > 0);
  }
  CHECK(layers == std::set<std::size_t>{1, 2}); // the first is dense
  refused({"stats", model("deepseek_v3"), "--ids", "3,4", "--experts", "--layer", "0"},
          "this layer has no experts");
  refused({"stats", in_source("data/bard-llama"), "--ids", "3,4", "--experts"},
          "no layer has experts");
  for (const char* form : {"text", "svg", "png", "pdf"}) {
    const Result drawn = run({"map", model("deepseek_v3"), "--ids", ids_of(6), "--layer", "1", "-s",
                              "routing", "-f", form, "-o", folder.path(form)});
    INFO(form << drawn.err);
    CHECK(drawn.code == 0);
  }
  // The weights of each token's experts are in their columns.
  REQUIRE(run({"dump", model("deepseek_v3"), "--ids", ids_of(12), "--layer", "1", "-s", "routing",
               "-o", folder.path("routing.npz")})
              .code == 0);
  const Tensor routing = tensor_in(io::open(folder.path("routing.npz")), "routing");
  const Tensor experts = tensor_in(all, "layers.1.experts"),
               weights = tensor_in(all, "layers.1.expert_weights");
  const std::size_t E = routing.shape()[1], n = experts.shape()[1];
  double sum = 0;
  for (std::size_t i = 0; i < experts.count(); ++i) {
    const std::size_t at = i / n * E + static_cast<std::size_t>(value_at(experts, i));
    CHECK(value_at(routing, at) == value_at(weights, i));
    sum += value_at(weights, i);
  }
  double all_weights = 0;
  for (std::size_t i = 0; i < routing.count(); ++i) all_weights += value_at(routing, i);
  CHECK(all_weights == Approx(sum).epsilon(1e-12));
}

TEST_CASE("mixture: effects of each expert, left out for the tokens that chose it", "[mixture]") {
  if (models().empty()) return;
  const Folder folder;
  using Rows = std::vector<nlohmann::json>;
  const auto effects_of = [](const std::string& path, const std::string& ids) {
    const Result result = run({"effects", path, "--ids", ids, "--experts", "-f", "json"});
    INFO(result.err);
    REQUIRE(result.code == 0);
    return nlohmann::json::parse(result.out).get<Rows>();
  };
  for (const char* name : {"mixtral", "deepseek_v3"}) {
    INFO(name);
    // Of one token, the weight of the place in its choice is 0.
    const auto logits = [&](const std::vector<std::string>& more) {
      std::vector<std::string> words{
          "dump", "-q", "-o", folder.path("logits.npz"), "-s", "logits", model(name), "--ids", "3"};
      words.insert(words.end(), more.begin(), more.end());
      REQUIRE(run(words).code == 0);
      return tensor_in(io::open(folder.path("logits.npz")), "logits");
    };
    const Tensor clean = logits({});
    std::size_t answer = 0;
    for (std::size_t i = 1; i < clean.count(); ++i)
      if (value_at(clean, i) > value_at(clean, answer)) answer = i;
    const io::Contents all = io::open(dumped(folder, "one.npz", {model(name), "--ids", "3"}));
    const Tensor experts = tensor_in(all, "layers.1.experts");
    std::size_t found = 0;
    for (const nlohmann::json& row : effects_of(model(name), "3")) {
      if (row["part"] != "expert" || row["layer"] != 1) continue;
      for (std::size_t j = 0; j < experts.count(); ++j)
        if (value_at(experts, j) == row["expert"].get<double>()) {
          const Tensor without =
              logits({"--patch", fmt::format("layers.1.expert_weights[*,0,{}] = 0", j)});
          const double change = value_at(without, answer) - value_at(clean, answer);
          CHECK(row["logit_change"].get<double>() == Approx(change).epsilon(1e-3).margin(1e-5));
          ++found;
        }
    }
    CHECK(found == experts.count());
  }
  // What the experts of a layer do by themselves is what its feed-forward does.
  std::map<int, double> sums, whole;
  for (const nlohmann::json& row : effects_of(model("mixtral"), ids_of(9))) {
    if (row["part"] == "expert") sums[row["layer"].get<int>()] += row["direct"].get<double>();
    if (row["part"] == "mlp") whole[row["layer"].get<int>()] = row["direct"].get<double>();
    if (row["part"] == "head") CHECK(row["expert"].is_null());
  }
  CHECK(sums.size() == whole.size());
  for (const auto& [layer, sum] : sums) CHECK(sum == Approx(whole[layer]).epsilon(1e-4));
  // Many texts: an expert that one of them does not choose has an effect of 0 there.
  const Result both = run({"effects", model("mixtral"), "--ids", "3,7", "--ids", "9,4", "--experts",
                           "--spread", "-f", "csv"});
  INFO(both.err);
  CHECK(both.code == 0);
  CHECK_THAT(both.out, StartsWith("part,layer,head,expert,"));
  CHECK(run({"effects", model("mixtral"), "--ids", "3,7", "--experts", "--per-position", "--query",
             "all", "--top", "5"})
            .code == 0);
  // After a patch of the sum nothing reads an expert's result.
  const Result patched = run({"effects", model("mixtral"), "--ids", "3,7,9", "--experts", "--patch",
                              "layers.1.mlp_out = 0", "-f", "json"});
  REQUIRE(patched.code == 0);
  for (const auto& row : nlohmann::json::parse(patched.out))
    CHECK_FALSE((row["part"] == "expert" && row["layer"] == 1));
  refused({"effects", model("mixtral"), "--ids", "3,7", "--experts", "--grid", "kl"},
          "--experts: a picture shows heads");
  refused({"effects", model("mixtral"), "--ids", "3,7", "--experts", "--ablate", "mean"},
          "--experts: an expert is left out for the tokens that chose it");
  refused({"effects", in_source("data/bard-llama"), "--ids", "3,7", "--experts"},
          "--experts: no layer of this model has any");
}

TEST_CASE("mixture: a file that lacks a part of its experts, or contradicts itself", "[mixture]") {
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
  const std::string moe = "model.layers.1.block_sparse_moe.", mlp = "model.layers.1.mlp.";
  says("mixtral", "-" + moe + "experts.5.w1.weight",
       "experts.in of 5 experts, but its router chooses among 7");
  says("mixtral", "-" + moe + "experts.5.w2.weight",
       "experts.out of 5 experts, but its router chooses among 7");
  says("mixtral", "-" + moe + "experts.0.w3.weight",
       "experts.0.w3 is missing, the experts' other factor");
  says("mixtral", "-" + moe + "gate.weight",
       "is of a mixture of experts, and its router, " + moe + "gate, is missing");
  says("mixtral", "num_experts_per_tok=0", "experts_per_token is 0: 1 to");
  says("mixtral", "num_experts_per_tok=99", "experts_per_token is 99: 1 to");
  says("mixtral", "num_experts_per_tok=1.5", "a whole number expected");
  says("mixtral", "num_local_experts=3", "config.json has num_local_experts 3, but the tensors");
  says("mixtral", "hidden_act='\"mish\"'", "experts_activation is mish: ");
  says("mixtral", "+" + moe + "experts.1.w2.weight=" + moe + "experts.1.w1.weight", "experts.out");
  says("deepseek_v3", "n_group=5", "router_groups is 5: a divisor of");
  says("deepseek_v3", "topk_group=9", "router_kept_groups is 9: ");
  says("deepseek_v3", "+" + mlp + "gate.e_score_correction_bias=model.norm.weight",
       "one for each expert");
  says("deepseek_v3", "scoring_func='\"tanh\"'", "scoring_func is neither softmax nor sigmoid");
  says("gpt_oss-mxfp4", "-" + mlp + "experts.down_proj_scales", "down_proj_blocks");
  says("gpt_oss-mxfp4",
       "+" + mlp + "experts.down_proj_scales=" + mlp + "experts.gate_up_proj_scales",
       "uint8 of (E, out, in / 32, 16)");
}

TEST_CASE("mixture: what a port gets wrong is named", "[mixture]") {
  if (models().empty() || sanitized) return;
  const Result result = shell("/usr/bin/python3 tests/models/ports.py \"$MHA\" " + models() +
                              " --model mixtral --model gpt_oss --model deepseek_v3");
  INFO(result.out << result.err);
  CHECK(result.code == 0);
}

TEST_CASE("mixture: a right port whose choices rounding makes otherwise is not blamed",
          "[mixture]") {
  if (models().empty() || sanitized) return;
  const Result result =
      shell("/usr/bin/python3 tests/models/clean.py \"$MHA\" " + models() +
            " --model mixtral --model deepseek_v3 --naming canonical --naming states --texts 6"
            " --precision bf16 --precision f16");
  INFO(result.out << result.err);
  CHECK(result.code == 0);
}

TEST_CASE("mixture: steps of a reference are compared, and other choices are counted",
          "[mixture]") {
  if (models().empty()) return;
  const Folder folder;
  const std::string ids = ids_of(9), all = folder.path("all.npz");
  REQUIRE(run({"dump", model("mixtral"), "--ids", ids, "-q", "-o", all}).code == 0);
  const Result same = run({"diff", model("mixtral"), "--ids", ids, "--against", all, "-f", "json"});
  INFO(same.out << same.err);
  CHECK(same.code == 0);
  for (const char* stage : {"router", "experts", "expert_weights", "mlp_pre", "expert_out"})
    CHECK_THAT(same.out, Contains(std::string("\"") + stage + '"'));
  const Result other = run({"dump", model("mixtral"), "--ids", ids, "-q", "-o", all, "--patch",
                            "layers.1.expert_out *= 2"});
  REQUIRE(other.code == 0);
  const Result differs = run({"diff", model("mixtral"), "--ids", ids, "--against", all});
  CHECK(differs.code == 1);
  CHECK_THAT(differs.out, Contains("expert_out"));
}

TEST_CASE("mixture: a patch names the chosen expert, and its columns", "[mixture]") {
  const Folder folder;
  const auto results = [&](const std::vector<std::string>& patches) {
    const std::string out = folder.path("out.npz");
    std::vector<std::string> words{"dump",       in_source("data/bard-mixtral"),
                                   "--ids",      "3,7,9",
                                   "-q",         "--layer",
                                   "1",          "-s",
                                   "expert_out", "-o",
                                   out};
    for (const std::string& patch : patches) words.insert(words.end(), {"--patch", patch});
    const Result result = run(words);
    INFO(result.err);
    REQUIRE(result.code == 0);
    return io::open(out).find("expert_out")->read();
  };
  const Tensor clean = results({});
  REQUIRE(clean.rank() == 3); // tokens, chosen, d_model
  const std::size_t n = clean.shape()[1], width = clean.shape()[2];
  const auto expected = [&](const auto& is_patched) {
    std::size_t wrong = 0;
    const Tensor patched = results({fmt::format("layers.1.expert_out[{}] = 5", is_patched.text)});
    for (std::size_t i = 0; i < clean.count(); ++i) {
      const bool changes = is_patched.at(i / (n * width), i / width % n, i % width);
      wrong += value_at(patched, i) != (changes ? 5 : value_at(clean, i));
    }
    CHECK(wrong == 0);
  };
  struct Place {
    const char* text;
    bool (*at)(std::size_t t, std::size_t j, std::size_t c);
  };
  using std::size_t;
  for (const Place& place : {
           Place{"*,2,1,7",
                 [](size_t t, size_t j, size_t c) { return t == 2 && j == 1 && c == 7; }},
           Place{"*,-1,0", [](size_t t, size_t j, size_t) { return t == 2 && j == 0; }},
           Place{"*,*,*,[0,-1]", [](size_t, size_t, size_t c) { return c == 0 || c == 63; }},
           Place{"*,1", [](size_t t, size_t, size_t) { return t == 1; }},
       })
    expected(place);
  for (const auto& [place, message] : {
           std::pair("[*,0,2]", "2 chosen experts"),
           {"[*,0,0,99]", "columns"},
           {"[*,0,0,0,0]", "expert_out has four axes: [*,tokens,chosen,columns]"},
       }) {
    const Result refused = run({"predict", in_source("data/bard-mixtral"), "--ids", "3,7,9",
                                "--patch", fmt::format("layers.1.expert_out{} = 0", place)});
    CHECK(refused.code == 2);
    CHECK_THAT(refused.err, Contains(message));
  }
}

TEST_CASE("mixture: a reference's experts in another order are compared in that of their weights",
          "[mixture]") {
  const Folder folder;
  const std::string model = in_source("data/bard-mixtral");
  REQUIRE(run({"dump", model, "--text", "To be, or not to", "--layer", "all", "--dtype", "f64",
               "-q", "-o", folder.path("own.npz")})
              .code == 0);
  const auto turned = [&](const std::string& change) {
    return shell("/usr/bin/python3 -c \"import numpy as np; o = dict(np.load('own.npz')); "
                 "at = [k for k in o if k.split('.')[-1] in "
                 "('experts', 'expert_weights', 'mlp_pre', 'mlp_up', 'mlp_act', 'expert_out')]; "
                 "[o.update({k: o[k][:, ::-1].copy()}) for k in at]; " +
                     change + "np.savez('theirs.npz', **o)\"",
                 {.folder = folder.path()});
  };
  const std::vector<std::string> words{
      "diff",    model, "--against", folder.path("theirs.npz"), "--text", "To be, or not to",
      "--dtype", "f64"};
  if (turned("").code != 0) return;
  const Result same = run(words);
  INFO(same.out << same.err);
  CHECK(same.code == 0);
  CHECK_THAT(same.out + same.err,
             Contains("not in the order of their weights, in which they are compared"));
  // The weights of the two, exchanged, are a difference in any order.
  REQUIRE(turned("k = 'layers.1.expert_weights'; o[k] = o[k][:, ::-1].copy(); ").code == 0);
  const Result other = run(words);
  INFO(other.out << other.err);
  CHECK(other.code == 1);
  CHECK_THAT(other.out, Contains("expert_weights"));
}
