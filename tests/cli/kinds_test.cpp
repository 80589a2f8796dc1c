// Kinds of layers that are not computed: a user's file names their parts, and they are refused by
// what they are. Checkpoints of tests/models/kinds.py, files of tests/data/kinds.

#include "support/run.hpp"

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>

using Catch::Contains;
using namespace mha::test;

namespace {

/// The folder of the checkpoints, written once; "" where there is no NumPy.
const std::string& models() {
  static const Folder folder;
  static const std::string path = [] {
    const Result made = shell("/usr/bin/python3 tests/models/kinds.py " + folder.path());
    if (made.code != 0) WARN("no NumPy, so no checkpoints: " << made.err);
    return made.code == 0 ? folder.path() : std::string();
  }();
  return path;
}

std::string file_of(const std::string& model) {
  return fmt::format("tests/data/kinds/{}.json", model);
}

Result run_on(const std::string& command, const std::string& model,
              const std::vector<std::string>& more) {
  std::vector<std::string> words{command, models() + "/" + model, "--naming", file_of(model)};
  words.insert(words.end(), more.begin(), more.end());
  return run(words);
}

/// "A_log 6, W_o 54×20": the parts with their shapes that info lists, in its order.
std::string parts_of(const nlohmann::json& info) {
  std::string list;
  for (const auto& part : info.value("parts", nlohmann::json::array())) {
    std::string shape;
    for (const auto& n : part["shape"])
      shape += fmt::format("{}{}", shape.empty() ? "" : "×", n.get<std::size_t>());
    list +=
        fmt::format("{}{} {}", list.empty() ? "" : ", ", part["name"].get<std::string>(), shape);
  }
  return list;
}

nlohmann::json info_of(const std::string& model, const std::string& layer) {
  const Result info = run_on("info", model, {"--layer", layer, "--format", "json"});
  INFO(model << " " << layer << " " << info.err);
  REQUIRE(info.code == 0);
  return nlohmann::json::parse(info.out);
}

struct Case {
  std::string model, layer, parts;
  std::string kind; ///< "" of a layer that is computed
};

const std::string mixture =
    "W_router 20×5, experts.in 5×20×14, experts.out 5×14×20, experts.up 5×20×14";
const std::string shared = "shared.in 20×18, shared.out 18×20, shared.up 20×18";

} // namespace

TEST_CASE("kinds: a user's file resolves a published model's names into named parts", "[naming]") {
  if (models().empty()) return;
  const std::vector<Case> cases{
      {"mixtral", "0", "W_q 20×48, W_k 20×16, W_v 20×16, W_o 48×20, " + mixture, ""},
      {"deepseek_v3", "0",
       "W_q 12×84, W_o 54×20, W_q_a 20×12, q_a_norm.weight 12, W_kv_a 20×20, kv_a_norm.weight 16, "
       "W_kv_b 16×114",
       ""},
      {"deepseek_v3", "1",
       "W_q 12×84, W_o 54×20, W_q_a 20×12, q_a_norm.weight 12, W_kv_a 20×20, kv_a_norm.weight 16, "
       "W_kv_b 16×114, W_router 20×5, experts.in 5×20×14, experts.out 5×14×20, "
       "experts.up 5×20×14, router_bias 5, " +
           shared,
       ""},
      {"qwen3_next", "0",
       "W_o 54×20, A_log 6, W_q 20×14, W_k 20×14, W_v 20×54, W_gate 20×54, W_beta 20×6, "
       "W_decay 20×6, conv_q 14×4, conv_k 14×4, conv_v 54×4, dt_bias 6, head_norm.weight 9",
       "is recurrent"},
      {"qwen3_next", "3", "W_q 20×48, W_k 20×16, W_v 20×16, W_o 48×20, W_gate 20×48", ""},
      {"nemotron_h", "0", "W_q 20×14, conv_q 14×4, conv_q.bias 14, W_beta 20×6, D 6",
       "is recurrent"},
      {"nemotron_h", "1", "W_q 20×48, W_k 20×16, W_v 20×16, W_o 48×20", ""},
      {"nemotron_h", "2", "mlp.in 20×44, mlp.out 44×20", "is a feed-forward alone"},
      {"nemotron_h", "3",
       "W_router 20×5, experts.in 5×20×14, experts.out 5×14×20, router_bias 5, shared.in 20×18, "
       "shared.out 18×20",
       "is a mixture of experts"},
      {"falcon_h1", "1.attn", "W_q 20×48, W_k 20×16, W_v 20×16, W_o 48×20", ""},
      {"falcon_h1", "1.ssm", "W_v 20×54, W_gate 20×54, conv_v 54×4, conv_v.bias 54, A_log 6",
       "is recurrent"},
      {"lfm2", "0", "W_q 20×20, W_k 20×20, W_v 20×20, W_o 20×20, conv_v 20×4",
       "is a short convolution"},
      {"lfm2", "2", "W_q 20×48, q_norm.weight 8, k_norm.weight 8, W_o 48×20", ""},
      {"seed_oss", "1", "W_q 20×48, b_q 48, W_k 20×16, b_v 16", ""},
      {"apertus", "1", "W_q 20×48, q_norm.weight 8, k_norm.weight 8", ""}};
  for (const Case& one : cases) {
    INFO(one.model << " " << one.layer);
    const nlohmann::json info = info_of(one.model, one.layer);
    const std::string found = ", " + parts_of(info) + ",";
    for (std::size_t at = 0; at < one.parts.size();) {
      const std::size_t end = std::min(one.parts.find(", ", at), one.parts.size());
      CHECK_THAT(found, Contains(", " + one.parts.substr(at, end - at) + ","));
      at = end + 2;
    }
    const std::string reason = info.value("reason", "");
    if (one.kind.empty())
      CHECK(reason == "");
    else
      CHECK_THAT(reason, Contains(fmt::format("layer {} {}, which is not computed yet: ", one.layer,
                                              one.kind)));
  }
}

TEST_CASE("kinds: settings of a kind are read of config.json", "[naming]") {
  if (models().empty()) return;
  const auto value = [](const nlohmann::json& info, const std::string& name) {
    for (const auto& setting : info["settings"])
      if (setting["name"] == name)
        return setting["value"].get<std::string>() + " " + setting["from"].get<std::string>();
    return std::string();
  };
  const nlohmann::json mixtral = info_of("mixtral", "1"), deep = info_of("deepseek_v3", "1");
  CHECK(value(mixtral, "experts_per_token") == "3 config.json");
  CHECK_THAT(value(mixtral, "router_weight"), Contains("renormalised"));
  CHECK(value(deep, "router_factor") == "2.5 config.json");
  CHECK(value(deep, "router_score") == "sigmoid config.json");
  CHECK_THAT(value(info_of("falcon_h1", "0.ssm"), "mixer"), Contains("recurrent"));
}

TEST_CASE("kinds: a layer or model of such a kind is refused by what it is", "[naming]") {
  if (models().empty()) return;
  const Folder folder;
  const auto refused = [&](const std::vector<std::string>& words, const std::string& text) {
    const Result result = run(words);
    INFO(result.err);
    CHECK(result.code == 2);
    CHECK_THAT(result.err, Contains(text));
  };
  const std::string X = folder.write("x.json", [] {
    std::string rows;
    for (int t = 0; t < 3; ++t) {
      rows += t > 0 ? ",[" : "[";
      for (int i = 0; i < 20; ++i)
        rows += fmt::format("{}{}", i > 0 ? "," : "", (7 * t + 3 * i) % 11 - 5);
      rows += "]";
    }
    return "{\"X\": [" + rows + "]}";
  }());
  for (const auto& [model, layer, kind] : {std::tuple("qwen3_next", "0", "layer 0 is recurrent"),
                                           {"nemotron_h", "3", "layer 3 is a mixture of experts"},
                                           {"lfm2", "1", "layer 1 is a short convolution"},
                                           {"hunyuan", "1", "normalised after the rotation"}})
    refused({"show", models() + "/" + model, X, "--naming", file_of(model), "--layer", layer},
            kind);
  for (const auto& [model, kind] : {std::pair("qwen3_next", "layer 0 is recurrent"),
                                    {"nemotron_h", "layer 0 is recurrent"},
                                    {"falcon_h1", "layer 0.ssm is recurrent"},
                                    {"lfm2", "layer 0 is a short convolution"},
                                    {"apertus", "xielu"}})
    refused({"predict", models() + "/" + model, "--naming", file_of(model), "--ids", "3,7"}, kind);
  // Plain attention of such models, with its input; as the family of the built-in reads it.
  for (const auto& [model, layer] :
       {std::pair("nemotron_h", "1"),
        {"falcon_h1", "0.attn"},
        {"lfm2", "2"},
        {"apertus", "1"},
        {"qwen3_next", "3"}}) {
    const Result shown = run({"show", models() + "/" + model, X, "--naming", file_of(model),
                              "--layer", layer, "--stage", "output"});
    INFO(model << " " << shown.err);
    CHECK(shown.code == 0);
  }
  const auto weights = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words{"show", models() + "/mixtral", X, "--layer", "1", "--format",
                                   "json"};
    words.insert(words.end(), more.begin(), more.end());
    return run(words).out;
  };
  CHECK(weights({"--naming", file_of("mixtral")}) == weights({}));
  const Result whole = run_on("predict", "seed_oss", {"--ids", "3,7,9"});
  INFO(whole.err);
  CHECK(whole.code == 0);
  // Mixtures, as the family of the built-in reads them.
  for (const char* const model : {"mixtral", "deepseek_v3"}) {
    const Result described = run_on("predict", model, {"--ids", "3,7,9", "-f", "json"}),
                 known = run({"predict", models() + "/" + model, "--ids", "3,7,9", "-f", "json"});
    INFO(model << " " << described.err << known.err);
    CHECK(described.code == 0);
    CHECK(described.out == known.out);
  }
}

TEST_CASE("kinds: shapes are held against the letters", "[naming]") {
  if (models().empty()) return;
  const Folder folder;
  const auto says = [&](const std::string& model, const std::string& from, const std::string& to,
                        const std::string& layer, const std::string& text) {
    std::string words;
    {
      std::ifstream file(file_of(model));
      words.assign(std::istreambuf_iterator<char>(file), {});
    }
    const std::size_t at = words.find(from);
    REQUIRE(at != std::string::npos);
    words.replace(at, from.size(), to);
    const std::string path = folder.write(model + ".json", words);
    const Result result = run({"show", models() + "/" + model, "--naming", path, "--layer", layer});
    INFO(result.err);
    CHECK(result.code == 2);
    CHECK_THAT(result.err, Contains(text));
  };
  says("mixtral", "block_sparse_moe.gate\"", "block_sparse_moe.gat\"", "0",
       "\"W_router\": " + models() + "/mixtral has no tensor model.layers.0.block_sparse_moe.gat");
  says("mixtral", "{expert}.w2", "{expert}.w1", "0", "experts.out, (E, I, d_model) expected");
  says("mixtral", "config:num_local_experts", "config:num_experts_per_tok", "0", "E is 3");
  says("mixtral", "\"E\": ", "\"e\": ", "0", "'e' is not a letter of a shape");
  says("mixtral", "\"W_router\"", "\"W_ruter\"", "0", "did you mean 'W_router'?");
  says("mixtral", "\"router_score\"", "\"router_scor\"", "0", "is not a setting");
  says("qwen3_next", "config:linear_value_head_dim", "config:linear_key_head_dim", "0",
       "which do not split into");
  says("qwen3_next", "\"H_qk\": \"config:linear_num_key_heads\",", "", "0",
       "H_qk must be known to split it");
  says("nemotron_h", ", \"split\": \"gate,v,k,q,beta\"", "", "0", "\"W_mixer\" needs its split");
}
