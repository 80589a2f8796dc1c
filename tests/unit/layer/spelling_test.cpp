#include <mha/naming/formula.hpp>
#include <mha/layer/names.hpp>
#include <mha/layer/settings.hpp>
#include <mha/naming/spelling.hpp>
#include <mha/load/assemble.hpp>
#include <mha/naming/tensor_names.hpp>
#include <mha/system/words.hpp>

#include <catch2/catch.hpp>

using namespace mha;
using Catch::Contains;

TEST_CASE("names: every alias of the table is found, and none stands for two tensors") {
  std::vector<std::string_view> all;
  for (const TensorInfo& info : tensor_names()) {
    all.push_back(info.name);
    for (std::string_view alias : words_of(info.aliases)) {
      CHECK(find_tensor_name(alias) == &info);
      all.push_back(alias);
    }
  }
  std::sort(all.begin(), all.end());
  CHECK(std::adjacent_find(all.begin(), all.end()) == all.end());
}

TEST_CASE("names: other letters are the same name") {
  for (const auto& [spelt, name] : {std::pair("Wq", "W_q"),
                                    {"WQ", "W_q"},
                                    {"wq", "W_q"},
                                    {"w_query", "W_q"},
                                    {"W-Key", "W_k"},
                                    {"layers.3.Wv", "W_v"},
                                    {"W_OUT", "W_o"},
                                    {"wo", "W_o"},
                                    {"B_q", "b_q"},
                                    {"bv", "b_v"},
                                    {"WQKV", "W_qkv"},
                                    {"Mask", "mask"},
                                    {"keyPaddingMask", "key_padding_mask"},
                                    {"XKV", "X_kv"},
                                    {"Weights", "weights"},
                                    {"Tokens", "tokens"}})
    CHECK(same_name(spelt) == name);
  for (const char* other :
       {"q", "Q", "W_1", "loss", "q_proj", "down_proj", "w", "tok", "kernel", "W_kv"})
    CHECK(same_name(other) == "");
}

TEST_CASE("names: what is clearly a part of a layer is told by name") {
  for (const auto& [spelt, meant] : {std::pair("q_proj", "W_q"),
                                     {"Q_proj", "W_q"},
                                     {"to_k", "W_k"},
                                     {"value_weight", "W_v"},
                                     {"out_proj.weight", "W_o"},
                                     {"attn.query.weight", "W_q"},
                                     {"o_proj.bias", "b_o"},
                                     {"k_bias", "b_k"},
                                     {"bias_v", "b_v"},
                                     {"query", "X"},
                                     {"keys", "X_k"},
                                     {"maks", "mask"},
                                     {"atention_mask", "attention_mask"},
                                     {"position", "positions"},
                                     {"qkv_proj", "W_qkv"},
                                     {"W_0", "W_o"},
                                     {"W0", "W_o"},
                                     {"w_0", "W_o"},
                                     {"layers.2.W_0", "W_o"},
                                     {"b_0", "b_o"},
                                     {"W_kv", "W_k"}}) {
    const std::optional<Misspelt> found = misspelt(spelt);
    INFO(spelt);
    REQUIRE(found);
    CHECK(found->meant == meant);
  }
  for (const char* other : {"W_1", "loss", "embedding", "input_ids", "mlp.up_proj.weight",
                            "down_proj", "outputs", "logits", "hidden", "lm_head.weight", "norm",
                            "Wx", "net.0.weight", "layers.0.b", "w.0", "W_01", "W_q1"})
    CHECK_FALSE(misspelt(other));
}

TEST_CASE("names: heads that are numbered are one weight's") {
  struct Case {
    const char *name, *weight;
    std::size_t number;
  };
  for (const Case& one : {Case{"W_q1", "W_q", 1}, Case{"Wk_12", "W_k", 12}, Case{"W2v", "W_v", 2},
                          Case{"W_O_0", "W_o", 0}, Case{"layers.3.W_q_1", "W_q", 1},
                          Case{"q_proj2.weight", "W_q", 2}, Case{"b_q1", "b_q", 1}}) {
    INFO(one.name);
    const std::optional<NumberedHead> head = numbered_head(one.name);
    REQUIRE(head);
    CHECK(head->weight == one.weight);
    CHECK(head->number == one.number);
  }
  for (const char* other : {"W_q", "W_1", "q1", "net.0.weight", "layers.1.q_proj.weight",
                            "W_q99999999999999999999", "W_kv1", "W_qkv2"})
    CHECK_FALSE(numbered_head(other));
}

TEST_CASE("settings: other names and other letters") {
  for (const char* name : {"heads", "n_heads", "nheads", "num_attention_heads", "H"})
    CHECK(find_setting(name) == find_setting("num_heads"));
  CHECK(same_setting("numHeads") == "num_heads");
  CHECK(same_setting("Causal") == "causal");
  CHECK(same_setting("NKVHeads") == "num_kv_heads");
  CHECK(same_setting("foo") == "");
  CHECK_THAT(about_setting("d_head"), Contains("num_heads"));
  CHECK_THAT(about_setting("head_dim"), Contains("num_heads"));
  CHECK(about_setting("d_model") == "");
}

TEST_CASE("formulas: what was computed, not what the table says") {
  const auto layer = [](std::vector<const char*> names, const char* norm = "none") {
    NamedTensors parts;
    parts["X"].tensor = Tensor(DType::f32, {3, 4});
    for (const char* name : names)
      parts[name].tensor = Tensor(DType::f32, name[0] == 'b' ? Shape{4} : Shape{4, 4});
    Settings settings;
    settings.num_heads = 2;
    set(settings, "input_norm", norm, "test");
    return make_layer(parts, settings);
  };
  CHECK(formula_of(layer({}), Stage::q) == "X");
  CHECK(formula_of(layer({}), Stage::output) == "concat");
  CHECK(formula_of(layer({}, "rms"), Stage::x) == "rms_norm(X)");
  CHECK(formula_of(layer({}, "layer"), Stage::k) == "x");
  CHECK(formula_of(layer({"W_q"}), Stage::q) == "x W_q");
  CHECK(formula_of(layer({"W_q", "b_q"}), Stage::q) == "x W_q + b_q");
  CHECK(formula_of(layer({"b_v"}), Stage::v) == "X + b_v");
  CHECK(formula_of(layer({"W_o", "b_o"}), Stage::output) == "concat W_o + b_o");
  CHECK(formula_of(layer({}), Stage::weights) == "exp / row_sum");
}
