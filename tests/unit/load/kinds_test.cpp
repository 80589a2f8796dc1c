// Kinds of rotary scaling and of attention, from config.json as the families publish it: each
// checkpoint is made of canonical weights, and its stages are the canonical layer's, bit for bit.

#include "support/checkpoint.hpp"

#include <catch2/catch.hpp>

#include <cmath>
#include <fstream>
#include <functional>

using Catch::Contains;

namespace {

const std::vector<std::string> projections{"q_proj", "k_proj", "v_proj", "o_proj"};
const LayerSizes grouped{.T = 5, .S = 0, .d_model = 10, .H = 6, .H_kv = 2, .d = 8};

CanonicalLayer rotary(const std::string& style = "half", const std::string& biases = "") {
  CanonicalLayer layer(grouped, biases);
  layer.set("causal", "true").set("rope", style);
  return layer;
}

/// Settings as "name=value name=value".
CanonicalLayer& set_all(CanonicalLayer& layer, std::string_view settings) {
  while (!settings.empty()) {
    const std::string_view one = settings.substr(0, settings.find(' '));
    settings.remove_prefix(std::min(settings.size(), one.size() + 1));
    layer.set(std::string(one.substr(0, one.find('='))),
              std::string(one.substr(one.find('=') + 1)));
  }
  return layer;
}

std::string at(std::size_t layer) {
  return fmt::format("model.layers.{}.self_attn.", layer);
}

/// What differs between layer `number` of a checkpoint with this config and the canonical layer.
std::string differs(const std::string& config, std::size_t number, const CanonicalLayer& layer,
                    const std::vector<std::string>& more = {}) {
  Checkpoint file(config);
  file.linears(at(number), projections, layer);
  for (const std::string& name : more) file.add(at(number) + name, layer[name]);
  return difference(file.load(layer).layer, layer);
}

/// Longrope's divisors as tensors of the canonical layer.
mha::Tensor factors(std::initializer_list<double> values) {
  return mha::Tensor::of<double>({values.size()}, std::vector<double>(values));
}

} // namespace

TEST_CASE("rotary scaling as families publish it") {
  struct Published {
    const char *config, *settings;
  };
  // clang-format off
  for (const auto& [config, settings] : {
    // Qwen2.5-7B-Instruct, as its card asks to write it
    Published{R"("model_type": "qwen2", "rope_theta": 1000000.0, "max_position_embeddings": 32768, "sliding_window": 131072,
        "use_sliding_window": false, "max_window_layers": 28,
        "rope_scaling": {"factor": 4.0, "original_max_position_embeddings": 32768, "type": "yarn"})",
     "rope_base=1000000 rope_scaling=yarn rope_factor=4 rope_original_length=32768"},
    // Llama 3.2: the factor of 3.1 is 8
    {R"("model_type": "llama", "rope_theta": 500000.0, "max_position_embeddings": 131072, "rope_scaling": {"factor": 32.0,
        "high_freq_factor": 4.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 8192, "rope_type": "llama3"})",
     "rope_base=500000 rope_scaling=llama3 rope_factor=32 rope_original_length=8192"},
    // yarn without a factor: the ratio of the lengths; mscale as DeepSeek has it
    {R"("model_type": "llama", "max_position_embeddings": 163840, "rope_scaling": {"beta_fast": 32, "beta_slow": 1,
        "mscale": 1.0, "mscale_all_dim": 0.5, "original_max_position_embeddings": 4096, "type": "yarn"})",
     "rope_scaling=yarn rope_factor=40 rope_original_length=4096 rope_mscale=1 rope_mscale_all_dim=0.5"},
    // yarn without an original length: max_position_embeddings
    {R"("model_type": "mistral", "sliding_window": null, "max_position_embeddings": 2048, "rope_scaling": {"factor": 16.0, "type": "yarn",
        "attention_factor": 1.25, "beta_fast": 64, "beta_slow": 2})",
     "rope_scaling=yarn rope_factor=16 rope_original_length=2048 rope_attention_factor=1.25 rope_beta_fast=64 rope_beta_slow=2"},
    {R"("model_type": "llama", "max_position_embeddings": 4, "rope_scaling": {"type": "dynamic", "factor": 2.0})",
     "rope_scaling=dynamic rope_factor=2 rope_original_length=4"},
    // Transformers 5
    {R"("model_type": "llama", "max_position_embeddings": 64, "rope_parameters": {"rope_type": "yarn", "factor": 8.0,
        "rope_theta": 20000.0, "original_max_position_embeddings": 16, "truncate": false})",
     "rope_base=20000 rope_scaling=yarn rope_factor=8 rope_original_length=16 rope_truncate=false"},
  }) {
    INFO(config);
    // Qwen2 always has biases of q, k and v.
    const bool biased = std::string_view(config).find("qwen2") != std::string_view::npos;
    CanonicalLayer layer = rotary("half", biased ? "qkv" : "");
    set_all(layer, settings);
    CHECK(differs(fmt::format("{{{}, \"num_attention_heads\": 6}}", config), 0, layer) == "");
  }
  // clang-format on
}

TEST_CASE("longrope of Phi-3: the ratio of the lengths, long factors beyond the original one") {
  for (const bool long_text : {false, true}) {
    CanonicalLayer layer = rotary();
    const std::string original = long_text ? "4" : "4096";
    set_all(layer, fmt::format("rope_scaling=longrope rope_factor={} rope_original_length={}",
                               long_text ? "32768" : "32", original));
    layer.tensors["rope_short_factor"] = factors({1.0, 1.05, 1.1, 1.25});
    layer.tensors["rope_long_factor"] = factors({1.08, 1.11, 21.5, 64.3});
    for (const char* type : {"longrope", "su"}) {
      Checkpoint file(fmt::format(
          R"({{"model_type": "phi3", "num_attention_heads": 6, "num_key_value_heads": 2,
              "max_position_embeddings": 131072, "original_max_position_embeddings": {},
              "rope_scaling": {{"long_factor": [1.08, 1.11, 21.5, 64.3],
                                "short_factor": [1.0, 1.05, 1.1, 1.25], {}"type": "{}"}}}})",
          original, std::string(type) == "su" ? "\"factor\": 3, " : "", type));
      file.fused(at(0) + "qkv_proj", layer, one_after_the_other("qkv", grouped));
      file.linear(at(0) + "o_proj", layer, "o");
      const mha::LoadedLayer loaded = file.load(layer);
      CHECK(difference(loaded.layer, layer) == "");
      CHECK(notes_say(loaded, "rope_factor 3") == (std::string(type) == "su"));
    }
  }
}

TEST_CASE("GPT-OSS: yarn without rounding in every layer") {
  CanonicalLayer even = rotary("half", "qkvo").add("sinks", {6});
  set_all(even, "rope_base=150000 rope_scaling=yarn rope_factor=32 rope_original_length=4096 "
                "rope_truncate=false");
  const CanonicalLayer odd = even;
  even.set("window_left", "2");
  Checkpoint file(R"({"model_type": "gpt_oss", "num_attention_heads": 6, "num_key_value_heads": 2,
    "sliding_window": 3, "rope_theta": 150000, "max_position_embeddings": 131072,
    "rope_scaling": {"beta_fast": 32.0, "beta_slow": 1.0, "factor": 32.0,
      "original_max_position_embeddings": 4096, "rope_type": "yarn", "truncate": false}})");
  file.linears(at(0), projections, even).add(at(0) + "sinks", even["sinks"]);
  file.linears(at(1), projections, odd).add(at(1) + "sinks", odd["sinks"]);
  CHECK(difference(file.load(even, "0").layer, even) == "");
  CHECK(difference(file.load(odd, "1").layer, odd) == "");
}

TEST_CASE("three rows of positions: Qwen2-VL, and Qwen3-VL, whose sections take turns") {
  mha::Tensor positions(mha::DType::f64, {3, 1, 5});
  for (std::size_t i = 0; i < 15; ++i)
    positions.as_mutable<double>()[i] = static_cast<double>(i * i % 11);
  const auto check = [&](CanonicalLayer& layer, const std::string& config, const char* prefix,
                         const std::vector<std::string>& more) {
    layer.tensors["positions"] = positions;
    Checkpoint file(config);
    file.linears(prefix, projections, layer);
    for (const std::string& name : more) file.add(prefix + name, layer[name]);
    file.write();
    const std::string json = file.path() + "/positions.json";
    mha::Request request;
    request.sources = {"position_ids=" + json};
    std::string text;
    for (double p : positions.as<double>()) text += fmt::format("{}{}", text.empty() ? "" : ",", p);
    std::ofstream(json) << fmt::format(
        R"({{"position_ids": {{"shape": [3, 1, 5], "dtype": "int64", "data": [{}]}}}})", text);
    CHECK(difference(file.load(layer, std::move(request)).layer, layer) == "");
  };
  CanonicalLayer vl = rotary("half", "qkv");
  set_all(vl, "mrope_section=1,2,1 rope_base=1000000");
  check(vl, R"({"model_type": "qwen2_vl", "num_attention_heads": 6, "rope_theta": 1000000.0,
      "rope_scaling": {"type": "mrope", "mrope_section": [1, 2, 1]}})",
        "model.layers.0.self_attn.", {});
  CanonicalLayer vl3 = rotary().add("q_norm.weight", {8}).add("k_norm.weight", {8});
  set_all(vl3, "mrope_section=2,1,1 mrope_interleaved=true rope_base=5000000");
  check(vl3, R"({"model_type": "qwen3_vl", "text_config": {"model_type": "qwen3_vl_text",
      "num_attention_heads": 6, "rope_theta": 5000000,
      "rope_scaling": {"mrope_interleaved": true, "mrope_section": [2, 1, 1], "rope_type": "default"}}})",
        "model.language_model.layers.0.self_attn.", {"q_norm.weight", "k_norm.weight"});
}

TEST_CASE("other kinds of rotary scaling are refused by name") {
  CanonicalLayer layer = rotary();
  for (const std::string type : {"xpos", "proportional"}) {
    Checkpoint file(
        fmt::format(R"({{"num_attention_heads": 6, "rope_scaling": {{"type": "{}"}}}})", type));
    file.linears("layers.0.self_attn.", projections, layer);
    CHECK_THROWS_WITH(file.load(layer),
                      file.path() + ": rope_scaling '" + type +
                          "' is not supported: linear, llama3, dynamic, yarn and longrope are; "
                          "rope_scaling none computes without it");
    CHECK(difference(file.load(layer, with("rope_scaling", "none")).layer, layer) == "");
  }
}

TEST_CASE("Cohere: interleaved pairs, layer norms without biases, QK norm of each head") {
  CanonicalLayer layer =
      rotary("interleaved").add("q_norm.weight", {6, 8}).add("k_norm.weight", {2, 8});
  set_all(layer, "qk_norm=layer qk_norm_eps=1e-5 rope_base=8000000");
  CHECK(differs(R"({"model_type": "cohere", "num_attention_heads": 6, "num_key_value_heads": 2,
      "rope_theta": 8000000.0, "layer_norm_eps": 1e-05, "use_qk_norm": true, "logit_scale": 0.0625})",
                0, layer, {"q_norm.weight", "k_norm.weight"}) == "");

  const std::string config = R"({"model_type": "cohere2", "num_attention_heads": 6,
      "num_key_value_heads": 2, "rope_theta": 50000, "layer_norm_eps": 1e-05, "sliding_window": 3)";
  CanonicalLayer sliding = rotary("interleaved"), whole(grouped, "");
  set_all(sliding, "rope_base=50000 window_left=2");
  whole.set("causal", "true");
  for (
      const char* pattern :
      {", \"sliding_window_pattern\": 4}",
       R"(, "layer_types": ["sliding_attention", "sliding_attention", "sliding_attention", "full_attention"]})"}) {
    CHECK(differs(config + pattern, 2, sliding) == "");
    CHECK(differs(config + pattern, 3, whole) == "");
  }
}

TEST_CASE("GLM and ERNIE rotate neighbours, GLM half of a head") {
  CanonicalLayer glm = rotary("interleaved", "qkv");
  set_all(glm, "rope_dims=4");
  CHECK(differs(R"({"model_type": "glm4", "num_attention_heads": 6, "attention_bias": true,
                    "partial_rotary_factor": 0.5})",
                1, glm) == "");
  CanonicalLayer moe = rotary("half", "qkv").add("q_norm.weight", {8}).add("k_norm.weight", {8});
  set_all(moe, "rope_dims=4 rope_base=1000000 qk_norm_eps=1e-5");
  CHECK(
      differs(
          R"({"model_type": "glm4_moe", "num_attention_heads": 6, "use_qk_norm": true, "attention_bias": true,
                    "rms_norm_eps": 1e-05, "partial_rotary_factor": 0.5, "rope_theta": 1000000})",
          1, moe, {"q_norm.weight", "k_norm.weight"}) == "");
  CanonicalLayer ernie = rotary("interleaved");
  set_all(ernie, "rope_base=500000");
  CHECK(differs(R"({"model_type": "ernie4_5", "num_attention_heads": 6, "use_bias": false,
                    "rope_theta": 500000.0})",
                0, ernie) == "");
}

TEST_CASE("layers without positions: SmolLM 3, EXAONE 4") {
  CanonicalLayer turning = rotary(), still(grouped, "");
  set_all(turning, "rope_base=5000000");
  still.set("causal", "true");
  const std::string smollm = R"({"model_type": "smollm3", "num_attention_heads": 6,
      "rope_theta": 5000000.0, "use_sliding_window": false, "sliding_window": null)";
  CHECK(differs(smollm + R"(, "no_rope_layers": [1, 0]})", 0, turning) == "");
  CHECK(differs(smollm + R"(, "no_rope_layers": [1, 0]})", 1, still) == "");
  CHECK(differs(smollm + R"(, "no_rope_layer_interval": 4})", 2, turning) == "");
  CHECK(differs(smollm + R"(, "no_rope_layer_interval": 4})", 3, still) == "");

  const std::string exaone = R"({"model_type": "exaone4", "num_attention_heads": 6,
      "rope_theta": 1000000, "sliding_window": 3, "layer_types": ["full_attention",
      "sliding_attention"]})";
  const std::vector<std::string> norms{"q_norm.weight", "k_norm.weight"};
  for (const char* name : {"q_norm.weight", "k_norm.weight"})
    turning.add(name, {8}), still.add(name, {8});
  set_all(turning, "rope_base=1000000 window_left=2 qk_norm_eps=1e-05");
  still.set("qk_norm_eps", "1e-05");
  CHECK(differs(exaone, 0, still, norms) == "");
  CHECK(differs(exaone, 1, turning, norms) == "");
}

TEST_CASE("OLMo clips, OLMoE clips what it has normalised, OLMo 3 stretches whole layers alone") {
  CanonicalLayer olmo = rotary();
  set_all(olmo, "clip_qkv=0.5");
  CHECK(differs(R"({"model_type": "olmo", "num_attention_heads": 6, "clip_qkv": 0.5})", 0, olmo) ==
        "");
  CanonicalLayer olmoe = rotary().add("q_norm.weight", {48}).add("k_norm.weight", {16});
  set_all(olmoe, "clip_qkv=0.5 qk_norm_eps=1e-5");
  CHECK(differs(R"({"model_type": "olmoe", "num_attention_heads": 6, "rms_norm_eps": 1e-05,
                    "clip_qkv": 0.5})",
                0, olmoe, {"q_norm.weight", "k_norm.weight"}) == "");

  const std::string olmo3 = R"({"model_type": "olmo3", "num_attention_heads": 6,
      "rms_norm_eps": 1e-06, "rope_theta": 500000, "max_position_embeddings": 65536,
      "sliding_window": 3, "layer_types": ["sliding_attention", "full_attention"],
      "rope_scaling": {"attention_factor": 1.2079441541679836, "beta_fast": 32, "beta_slow": 1,
        "factor": 8.0, "original_max_position_embeddings": 8192, "rope_type": "yarn"}})";
  CanonicalLayer whole = rotary().add("q_norm.weight", {48}).add("k_norm.weight", {16});
  set_all(whole, "rope_base=500000");
  CanonicalLayer sliding = whole;
  sliding.set("window_left", "2");
  set_all(whole, "rope_scaling=yarn rope_factor=8 rope_original_length=8192 "
                 "rope_attention_factor=1.2079441541679836");
  CHECK(differs(olmo3, 0, sliding, {"q_norm.weight", "k_norm.weight"}) == "");
  CHECK(differs(olmo3, 1, whole, {"q_norm.weight", "k_norm.weight"}) == "");
}

TEST_CASE("layer norms of queries and keys: StableLM, Phi, MPT") {
  CanonicalLayer stable = rotary().add("q_norm.weight", {6, 8}).add("k_norm.weight", {2, 8});
  set_all(stable, "rope_dims=2 qk_norm=layer qk_norm_eps=1e-5");
  Checkpoint file(R"({"model_type": "stablelm", "num_attention_heads": 6, "layer_norm_eps": 1e-05,
                      "qk_layernorm": true, "partial_rotary_factor": 0.25})");
  file.linears(at(0), projections, stable);
  for (const std::string letter : {"q", "k"})
    for (std::size_t h = 0; h < (letter == "q" ? 6u : 2u); ++h)
      file.add(fmt::format("{}{}_layernorm.norms.{}.weight", at(0), letter, h),
               stable[letter + "_norm.weight"].at(h));
  CHECK(difference(file.load(stable).layer, stable) == "");

  CanonicalLayer phi = rotary("half", "qkvo");
  for (const char* name : {"q_norm.weight", "k_norm.weight", "q_norm.bias", "k_norm.bias"})
    phi.add(name, {8});
  set_all(phi, "rope_dims=4 qk_norm=layer qk_norm_eps=1e-5");
  Checkpoint phi_file(R"({"model_type": "phi", "num_attention_heads": 6, "num_key_value_heads": 2,
                          "layer_norm_eps": 1e-05, "qk_layernorm": true, "partial_rotary_factor": 0.5})");
  phi_file.linears(at(0), {"q_proj", "k_proj", "v_proj", "dense"}, phi);
  for (const std::string letter : {"q", "k"})
    for (const std::string kind : {"weight", "bias"})
      phi_file.add(at(0) + letter + "_layernorm." + kind, phi[letter + "_norm." + kind]);
  CHECK(difference(phi_file.load(phi).layer, phi) == "");

  CanonicalLayer mpt(LayerSizes{}, "");
  mpt.add("q_norm.weight", {12}).add("k_norm.weight", {12}).set("causal", "true");
  set_all(mpt, "alibi=mpt qk_norm=layer qk_norm_eps=1e-5");
  const auto mpt_file = [&](Checkpoint& to) {
    to.fused("blocks.0.attn.Wqkv", mpt, one_after_the_other("qkv", mpt.sizes));
    to.linear("blocks.0.attn.out_proj", mpt, "o");
    to.add("blocks.0.attn.q_ln.weight", mpt["q_norm.weight"]);
    to.add("blocks.0.attn.k_ln.weight", mpt["k_norm.weight"]);
  };
  Checkpoint whole(R"({"model_type": "mpt", "n_heads": 3, "attn_config": {"qk_ln": true}})");
  mpt_file(whole);
  CHECK(difference(whole.load(mpt).layer, mpt) == "");
  Checkpoint both(
      R"({"model_type": "mpt", "n_heads": 3, "attn_config": {"qk_ln": true, "clip_qkv": 6}})");
  mpt_file(both);
  CHECK_THROWS_WITH(both.load(mpt), Contains("clip_qkv 6 before the layer normalisation") &&
                                        Contains("{\"q\", tensor} {\"k\", tensor}"));
}

namespace {

/// Latent attention's layer: T 5, d_model 10, 3 heads of 4 + 2, values of 5, r_kv 7, r_q 9 or none.
CanonicalLayer latent(bool queries) {
  CanonicalLayer layer(LayerSizes{.T = 5, .S = 0, .d_model = 10, .H = 3, .H_kv = 3, .d = 6}, "");
  layer.tensors.erase("W_k"), layer.tensors.erase("W_v");
  layer.add("W_kv_a", {10, 9}).add("kv_a_norm.weight", {7}).add("W_kv_b", {7, 27});
  layer.add("W_o", {15, 10});
  if (queries) layer.add("W_q_a", {10, 9}).add("q_a_norm.weight", {9}).add("W_q", {9, 18});
  set_all(layer, "causal=true rope=interleaved rope_first=4 rope_dims=2");
  return layer;
}

void add_latent(Checkpoint& file, const CanonicalLayer& layer) {
  const auto linear = [&](const char* name, const char* canonical) {
    file.add(at(3) + name, mha::transposed(layer[canonical]));
  };
  if (layer.has("W_q_a")) {
    linear("q_a_proj.weight", "W_q_a"), linear("q_b_proj.weight", "W_q");
    file.add(at(3) + "q_a_layernorm.weight", layer["q_a_norm.weight"]);
  } else {
    linear("q_proj.weight", "W_q");
  }
  linear("kv_a_proj_with_mqa.weight", "W_kv_a"), linear("kv_b_proj.weight", "W_kv_b");
  file.add(at(3) + "kv_a_layernorm.weight", layer["kv_a_norm.weight"]);
  linear("o_proj.weight", "W_o");
  for (const auto& [name, bias] : {std::pair("q_a_proj.bias", "b_q_a"),
                                   {"kv_a_proj_with_mqa.bias", "b_kv_a"},
                                   {"o_proj.bias", "b_o"}})
    if (layer.has(bias)) file.add(at(3) + name, layer[bias]);
}

} // namespace

TEST_CASE("DeepSeek's latent attention: V3 with its scale, V2-Lite without compressed queries") {
  CanonicalLayer v3 = latent(true).add("b_q_a", {9}).add("b_kv_a", {9}).add("b_o", {10});
  const double g = 0.1 * std::log(40.0) + 1;
  set_all(v3, fmt::format("scale={} rope_scaling=yarn rope_factor=40 rope_original_length=4096 "
                          "rope_mscale=1 rope_mscale_all_dim=1",
                          g * g / std::sqrt(6.0)));
  Checkpoint file(
      R"({"model_type": "deepseek_v3", "num_attention_heads": 3, "num_key_value_heads": 3,
    "attention_bias": true, "kv_lora_rank": 7, "q_lora_rank": 9, "qk_nope_head_dim": 4,
    "qk_rope_head_dim": 2, "v_head_dim": 5, "rms_norm_eps": 1e-06, "rope_theta": 10000,
    "max_position_embeddings": 163840, "rope_scaling": {"beta_fast": 32, "beta_slow": 1,
      "factor": 40, "mscale": 1.0, "mscale_all_dim": 1.0,
      "original_max_position_embeddings": 4096, "type": "yarn"}})");
  add_latent(file, v3);
  const mha::LoadedLayer loaded = file.load(v3);
  CHECK(loaded.naming == "DeepSeek");
  CHECK(difference(loaded.layer, v3) == "");
  CHECK(loaded.layer.dims.d_k == 6);
  CHECK(loaded.layer.dims.d_v == 5);
  // The published V3: 192 wide heads, 1.87 times their usual scale.
  CHECK(g * g == Approx(1.8738).epsilon(1e-4));

  const CanonicalLayer lite = latent(false);
  for (const char* config :
       {R"({"model_type": "deepseek_v2", "num_attention_heads": 3, "q_lora_rank": null,
            "kv_lora_rank": 7, "qk_nope_head_dim": 4, "qk_rope_head_dim": 2, "v_head_dim": 5})",
        R"({"num_attention_heads": 3})"}) { // the tensors say the widths
    Checkpoint plain(config);
    add_latent(plain, lite);
    CHECK(difference(plain.load(lite).layer, lite) == "");
  }
  CanonicalLayer half = latent(false);
  half.set("rope", "half");
  Checkpoint halves(R"({"model_type": "deepseek_v3", "num_attention_heads": 3,
                        "rope_interleave": false})");
  add_latent(halves, half);
  CHECK(difference(halves.load(half).layer, half) == "");
}

TEST_CASE("latent attention says what is missing or does not fit") {
  const auto says = [](const std::function<void(CanonicalLayer&)>& change,
                       const std::string& text) {
    CanonicalLayer layer = latent(true);
    change(layer);
    CHECK_THROWS_WITH(layer.layer(), Contains(text));
  };
  says([](CanonicalLayer& l) { l.tensors.erase("W_kv_a"); }, "W_kv_b is alone");
  says([](CanonicalLayer& l) { l.add("X_kv", {5, 10}); }, "latent attention is self-attention");
  says([](CanonicalLayer& l) { l.add("kv_a_norm.weight", {9}); }, "a shared part of the key");
  says([](CanonicalLayer& l) { l.add("W_kv_a", {11, 9}); }, "11 rows");
  says([](CanonicalLayer& l) { l.add("W_kv_b", {7, 28}); }, "each has a key of 4");
  says([](CanonicalLayer& l) { l.add("W_kv_b", {8, 27}); }, "8 rows");
  says([](CanonicalLayer& l) { l.add("b_kv_a", {8}); }, "9 expected");
}

TEST_CASE("BERT's relative positions") {
  for (const char* type : {"relative_key", "relative_key_query"}) {
    CanonicalLayer layer;
    layer.add("relative_key", {15, 4});
    if (std::string(type) == "relative_key_query") layer.set("relative_key_query", "true");
    Checkpoint file(fmt::format(R"({{"model_type": "bert", "num_attention_heads": 3,
        "max_position_embeddings": 8, "position_embedding_type": "{}"}})",
                                type));
    file.linears("encoder.layer.0.attention.",
                 {"self.query", "self.key", "self.value", "output.dense"}, layer);
    file.add("encoder.layer.0.attention.self.distance_embedding.weight", layer["relative_key"]);
    CHECK(difference(file.load(layer).layer, layer) == "");
  }
  CanonicalLayer layer;
  CHECK_THROWS_WITH(layer.add("relative_key", {15, 3}).layer(), Contains("(2M − 1, d_k)"));
  CHECK_THROWS_WITH(layer.add("relative_key", {7, 4}).layer(),
                    Contains("it knows distances of 4 tokens, but the layer has 5"));
}

TEST_CASE("newer kinds say what they lack") {
  const auto says = [](CanonicalLayer layer, const std::string& text) {
    CHECK_THROWS_WITH(layer.layer(), Contains(text));
  };
  CanonicalLayer layer = rotary();
  says(CanonicalLayer(layer).add("positions", {3, 5}), "give mrope_section T,H,W");
  says(CanonicalLayer(layer).add("positions", {3, 5}).set("mrope_section", "1,1,1"),
       "3 pairs, but 4 are rotated");
  says(CanonicalLayer(layer).set("rope_scaling", "longrope"),
       "rope_short_factor is missing: 4 factors expected");
  says(CanonicalLayer(layer).set("rope_scaling", "yarn").set("rope_beta_slow", "40"),
       "rope_beta_slow is 40, rope_beta_fast 32");
  says(CanonicalLayer(layer).set("rope_first", "6").set("rope_dims", "4"),
       "rope rotates 4 dimensions from number 6 on");
  layer.add("q_norm.weight", {8}).add("k_norm.weight", {8});
  says(CanonicalLayer(layer).add("q_norm.bias", {8}), "give qk_norm layer");
  says(CanonicalLayer(layer).set("qk_norm", "layer").set("qk_norm_one_plus", "true"),
       "qk_norm_one_plus is only for an RMS norm");
}
