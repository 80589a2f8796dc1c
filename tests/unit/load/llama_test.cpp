#include "support/checkpoint.hpp"

#include <catch2/catch.hpp>

#include <cmath>

// LLaMA's relatives: each checkpoint is made of canonical weights, and its stages are the canonical
// layer's, bit for bit.

namespace {

const std::vector<std::string> projections{"q_proj", "k_proj", "v_proj", "o_proj"};
// H · d ≠ d_model, and grouped keys.
const LayerSizes grouped{.T = 5, .d_model = 10, .H = 6, .H_kv = 2, .d = 4};

CanonicalLayer rotary(LayerSizes sizes = grouped, const std::string& biases = "") {
  CanonicalLayer layer(sizes, biases);
  layer.set("causal", "true").set("rope", "half");
  return layer;
}

} // namespace

TEST_CASE("LLaMA") {
  const CanonicalLayer layer = rotary().set("rope_base", "50000");
  Checkpoint file(R"({"model_type": "llama", "num_attention_heads": 6, "num_key_value_heads": 2,
                      "rope_theta": 50000.0})");
  file.linears("model.layers.0.self_attn.", projections, layer);
  const mha::LoadedLayer loaded = file.load(layer);
  CHECK(loaded.naming == "LLaMA");
  CHECK(difference(loaded.layer, layer) == "");
}

TEST_CASE("LLaMA with attention_bias, in bfloat16, under wrapped prefixes, without config.json") {
  const CanonicalLayer layer = rotary(grouped, "qkvo").round_to_bf16();
  for (const char* prefix :
       {"model.", "module.model.", "_orig_mod.model.", "language_model.model.", ""}) {
    Checkpoint file;
    file.linears(std::string(prefix) + "layers.3.self_attn.", projections, layer)
        .store_as(mha::DType::bf16);
    const mha::LoadedLayer loaded = file.load(layer, with("num_heads", "6"));
    CHECK(loaded.id == "3");
    CHECK(difference(loaded.layer, layer) == "");
  }
}

TEST_CASE("a rotary base that no config.json says is told") {
  const CanonicalLayer layer = rotary();
  const auto tells = [&](const std::string& config, const char* option, const char* value) {
    Checkpoint file(config);
    file.linears("model.layers.0.self_attn.", projections, layer);
    mha::Request request = with("num_heads", "6");
    if (*option) request.settings.push_back({option, value});
    return notes_say(file.load(layer, request), "rotary embedding with base 10000, as no config");
  };
  CHECK(tells("", "", ""));
  CHECK(tells(R"({"num_attention_heads": 6})", "", ""));
  CHECK_FALSE(tells("", "rope_base", "500000"));
  CHECK_FALSE(tells("", "rope", "none"));
  CHECK_FALSE(tells(R"({"rope_theta": 10000.0})", "", ""));
  CHECK_FALSE(tells(
      R"({"model_type": "llama", "num_attention_heads": 6, "num_key_value_heads": 2})", "", ""));
}

TEST_CASE("the frequency scalings of LLaMA") {
  CanonicalLayer layer = rotary();
  Checkpoint linear(
      R"({"num_attention_heads": 6, "rope_scaling": {"type": "linear", "factor": 4.0}})");
  linear.linears("layers.0.self_attn.", projections, layer);
  layer.set("rope_scaling", "linear").set("rope_factor", "4");
  CHECK(difference(linear.load(layer).layer, layer) == "");

  CanonicalLayer longer = rotary().set("rope_scaling", "llama3").set("rope_factor", "8");
  longer.set("rope_low_freq_factor", "1")
      .set("rope_high_freq_factor", "4")
      .set("rope_original_length", "16");
  for (const char* name : {"rope_scaling", "rope_parameters"}) {
    Checkpoint llama3(
        fmt::format(R"({{"num_attention_heads": 6, "{}": {{"rope_type": "llama3", "factor": 8.0,
      "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 16}}}})",
                    name));
    llama3.linears("layers.0.self_attn.", projections, longer);
    CHECK(difference(llama3.load(longer).layer, longer) == "");
  }
}

TEST_CASE("Mistral's window counts the query's own key") {
  const CanonicalLayer layer = rotary().set("window_left", "1");
  Checkpoint file(R"({"model_type": "mistral", "num_attention_heads": 6, "sliding_window": 2})");
  file.linears("model.layers.0.self_attn.", projections, layer);
  CHECK(difference(file.load(layer).layer, layer) == "");
}

TEST_CASE("LLaMA as its makers publish it") {
  const CanonicalLayer layer =
      CanonicalLayer(grouped, "").set("causal", "true").set("rope", "interleaved");
  Checkpoint file(R"({"n_heads": 6, "n_kv_heads": 2})");
  file.linears("layers.0.attention.", {"wq", "wk", "wv", "wo"}, layer);
  CHECK(difference(file.load(layer).layer, layer) == "");
}

TEST_CASE("Qwen2") {
  const CanonicalLayer layer = rotary(grouped, "qkv").set("rope_base", "1000000");
  for (const std::string config :
       {R"("model_type": "qwen2", )", R"("use_sliding_window": false, "sliding_window": 2, )"}) {
    Checkpoint file("{" + config + R"("num_attention_heads": 6, "rope_theta": 1000000.0})");
    file.linears("model.layers.0.self_attn.", projections, layer);
    const mha::LoadedLayer loaded = file.load(layer);
    CHECK(loaded.naming == "Qwen2");
    CHECK(difference(loaded.layer, layer) == "");
  }
}

TEST_CASE("Qwen2's lower layers have no window") {
  const CanonicalLayer all = rotary(grouped, "qkv"),
                       window = rotary(grouped, "qkv").set("window_left", "1");
  Checkpoint file(R"({"model_type": "qwen2", "num_attention_heads": 6, "use_sliding_window": true,
                      "sliding_window": 2, "max_window_layers": 1})");
  file.linears("model.layers.0.self_attn.", projections, all)
      .linears("model.layers.1.self_attn.", projections, window);
  CHECK(difference(file.load(all, "0").layer, all) == "");
  CHECK(difference(file.load(window, "1").layer, window) == "");
}

TEST_CASE("Qwen3") {
  for (const std::string config :
       {R"({"model_type": "qwen3", "num_attention_heads": 6, "head_dim": 4})", ""}) {
    CanonicalLayer layer = rotary().add("q_norm.weight", {4}).add("k_norm.weight", {4});
    // Published models have 1e6, which Transformers takes from the config alone.
    if (config.empty()) layer.set("rope_base", "1000000");
    Checkpoint file(config); // without config.json, the width of q_norm gives the heads
    file.linears("model.layers.0.self_attn.", projections, layer);
    for (const char* name : {"q_norm.weight", "k_norm.weight"})
      file.add(std::string("model.layers.0.self_attn.") + name, layer[name]);
    const mha::LoadedLayer loaded = file.load(layer);
    CHECK(loaded.naming == "Qwen3");
    CHECK(difference(loaded.layer, layer) == "");
  }
}

TEST_CASE("a model whose kind normalises queries and keys lacks none of the two") {
  for (const std::string type : {"qwen3", "olmo2", "gemma3_text", "exaone4"})
    for (const std::string lost : {"q_norm.weight", "k_norm.weight"}) {
      const CanonicalLayer layer = rotary().add("q_norm.weight", {4}).add("k_norm.weight", {4});
      Checkpoint file(R"({"model_type": ")" + type + R"(", "num_attention_heads": 6})");
      file.linears("model.layers.0.self_attn.", projections, layer);
      const std::string kept = lost[0] == 'q' ? "k_norm.weight" : "q_norm.weight";
      file.add("model.layers.0.self_attn." + kept, layer[kept]);
      INFO(type << " " << lost);
      CHECK_THROWS_WITH(file.load(layer), Catch::Contains(lost + " is missing, which models of"));
    }
}

TEST_CASE("windows where config.json is silent are Transformers'") {
  const auto window_of = [](const std::string& more, const std::string& id = "0") {
    const CanonicalLayer layer = rotary(grouped, more.find("qwen") < more.size() ? "qkv" : "");
    Checkpoint file(R"({"num_attention_heads": 6, )" + more + "}");
    file.linears("model.layers." + id + ".self_attn.", projections, layer);
    return file.load(layer, id).layer.settings.window_left;
  };
  CHECK(window_of(R"("model_type": "mistral")") == 4095);
  CHECK(window_of(R"("model_type": "mistral", "sliding_window": null)") == -1);
  CHECK(window_of(R"("model_type": "mixtral")") == -1);
  const std::string qwen = R"("model_type": "qwen2", "use_sliding_window": true)";
  CHECK(window_of(qwen, "27") == -1);
  CHECK(window_of(qwen, "28") == 4095);
  CHECK(window_of(qwen + R"(, "sliding_window": 3, "max_window_layers": 0)") == 2);
  const std::string smollm3 = R"("model_type": "smollm3", "sliding_window": 3)";
  CHECK(window_of(smollm3, "3") == -1);
  CHECK(window_of(smollm3 + R"(, "use_sliding_window": true)", "3") == 2);
  CHECK(window_of(smollm3 + R"(, "use_sliding_window": true)", "2") == -1);
}

TEST_CASE("OLMo 3 has windows, OLMo 2 none, whatever its config says") {
  const CanonicalLayer layer = rotary().add("q_norm.weight", {24}).add("k_norm.weight", {8});
  const auto window_of = [&](const std::string& type) {
    Checkpoint file(R"({"num_attention_heads": 6, "sliding_window": 3, "model_type": ")" + type +
                    "\"}");
    file.linears("model.layers.0.self_attn.", projections, layer);
    for (const char* name : {"q_norm.weight", "k_norm.weight"})
      file.add(std::string("model.layers.0.self_attn.") + name, layer[name]);
    return file.load(layer).layer.settings.window_left;
  };
  CHECK(window_of("olmo2") == -1);
  CHECK(window_of("olmo3") == 2);
}

TEST_CASE("OLMo 2 normalises the whole projection") {
  const CanonicalLayer layer =
      rotary().add("q_norm.weight", {24}).add("k_norm.weight", {8}).set("qk_norm_eps", "1e-5");
  Checkpoint file(R"({"num_attention_heads": 6, "rms_norm_eps": 1e-05})");
  file.linears("model.layers.0.self_attn.", projections, layer);
  for (const char* name : {"q_norm.weight", "k_norm.weight"})
    file.add(std::string("model.layers.0.self_attn.") + name, layer[name]);
  const mha::LoadedLayer loaded = file.load(layer);
  CHECK(loaded.naming == "OLMo 2");
  CHECK(difference(loaded.layer, layer) == "");
}

TEST_CASE("Gemma 2: every second layer has a window") {
  CanonicalLayer even =
      rotary().set("scale", fmt::format("{}", 1 / std::sqrt(144.0))).set("softcap", "50");
  const CanonicalLayer odd = even;
  even.set("window_left", "1");
  Checkpoint file(
      R"({"model_type": "gemma2", "num_attention_heads": 6, "query_pre_attn_scalar": 144,
                      "attn_logit_softcapping": 50.0, "sliding_window": 2})");
  file.linears("model.layers.2.self_attn.", projections, even)
      .linears("model.layers.3.self_attn.", projections, odd);
  CHECK(difference(file.load(even, "2").layer, even) == "");
  const mha::LoadedLayer loaded = file.load(odd, "3");
  CHECK(loaded.naming == "Gemma 2");
  CHECK(difference(loaded.layer, odd) == "");
}

TEST_CASE("Gemma 2's cap of scores: null is none, without the key it is 50") {
  for (const auto& [key, cap] : {std::pair<std::string, std::string>{"", "50"},
                                 {R"("attn_logit_softcapping": null,)", ""},
                                 {R"("attn_logit_softcapping": 30.0,)", "30"}}) {
    INFO(key);
    CanonicalLayer layer = rotary().set("scale", "0.125");
    if (!cap.empty()) layer.set("softcap", cap);
    Checkpoint file(R"({"model_type": "gemma2", "num_attention_heads": 6, )" + key +
                    R"("query_pre_attn_scalar": 64, "sliding_window": 2})");
    file.linears("model.layers.3.self_attn.", projections, layer);
    CHECK(difference(file.load(layer, "3").layer, layer) == "");
  }
}

TEST_CASE("Gemma 3: rope_parameters are of each kind of layers, or nobody's") {
  CanonicalLayer global = rotary().add("q_norm.weight", {4}).add("k_norm.weight", {4});
  global.set("qk_norm_one_plus", "true").set("scale", "0.0625").set("rope_base", "1000000");
  const std::string prefix = "model.layers.5.self_attn.";
  const auto load = [&](const CanonicalLayer& layer, const std::string& parameters) {
    Checkpoint file(
        R"({"model_type": "gemma3_text", "num_attention_heads": 6, "rope_parameters": )" +
        parameters + "}");
    file.linears(prefix, projections, layer);
    for (const char* name : {"q_norm.weight", "k_norm.weight"})
      file.add(prefix + name, layer[name]);
    return file.load(layer, "5");
  };
  const mha::LoadedLayer flat = load(global, R"({"rope_type": "default", "rope_theta": 777})");
  CHECK(difference(flat.layer, global) == "");
  CHECK(notes_say(flat, "not read here: rope_parameters.rope_theta 777"));
  global.set("rope_base", "777");
  const std::string sliding = R"("sliding_attention": {"rope_type": "default", "rope_theta": 99})";
  const mha::LoadedLayer own =
      load(global,
           R"({"full_attention": {"rope_type": "default", "rope_theta": 777}, )" + sliding + "}");
  CHECK(difference(own.layer, global) == "");
  CHECK_FALSE(notes_say(own, "not read here"));
}

TEST_CASE("Gemma 3: windows and rotary bases by layer, inside text_config") {
  CanonicalLayer global = rotary().add("q_norm.weight", {4}).add("k_norm.weight", {4});
  global.set("qk_norm_one_plus", "true").set("scale", fmt::format("{}", 1 / std::sqrt(168.0)));
  CanonicalLayer local = global;
  global.set("rope_base", "1000000").set("rope_scaling", "linear").set("rope_factor", "8");
  local.set("window_left", "2").set("rope_base", "10000");
  Checkpoint file(
      R"({"model_type": "gemma3", "text_config": {"model_type": "gemma3_text", "query_pre_attn_scalar": 168,
    "rope_theta": 1000000.0, "rope_local_base_freq": 10000.0, "sliding_window": 3,
    "rope_scaling": {"rope_type": "linear", "factor": 8.0}}})");
  for (const auto& [number, layer] :
       {std::pair<int, const CanonicalLayer*>(4, &local), {5, &global}}) {
    const std::string prefix = fmt::format("language_model.model.layers.{}.self_attn.", number);
    file.linears(prefix, projections, *layer);
    for (const char* name : {"q_norm.weight", "k_norm.weight"})
      file.add(prefix + name, (*layer)[name]);
  }
  CHECK(difference(file.load(local, "4").layer, local) == "");
  CHECK(difference(file.load(global, "5").layer, global) == "");
}

TEST_CASE("GPT-OSS: sinks, and a window on every second layer") {
  CanonicalLayer even = rotary(grouped, "qkvo").add("sinks", {6}).set("rope_base", "150000");
  const CanonicalLayer odd = even;
  even.set("window_left", "2");
  Checkpoint file(
      R"({"model_type": "gpt_oss", "num_attention_heads": 6, "sliding_window": 3, "rope_theta": 150000,
                      "layer_types": ["sliding_attention", "full_attention"]})");
  for (const auto& [number, layer] : {std::pair<int, const CanonicalLayer*>(0, &even), {1, &odd}}) {
    const std::string prefix = fmt::format("model.layers.{}.self_attn.", number);
    file.linears(prefix, projections, *layer).add(prefix + "sinks", (*layer)["sinks"]);
  }
  CHECK(difference(file.load(even, "0").layer, even) == "");
  CHECK(difference(file.load(odd, "1").layer, odd) == "");

  for (const char* type : {"llama", "mixtral", "gemma"}) { // have none
    Checkpoint other(fmt::format(
        R"({{"model_type": "{}", "num_attention_heads": 6, "num_key_value_heads": 2}})", type));
    other.linears("model.layers.1.self_attn.", projections, rotary());
    other.add("model.layers.1.self_attn.sinks", odd["sinks"]);
    CHECK(notes_say(other.load(rotary(), "1"),
                    "skipped, though in attention's module: model.layers.1.self_attn.sinks"));
  }
}

TEST_CASE("Phi and Phi-3") {
  const CanonicalLayer phi = rotary({}, "qkvo").set("rope_dims", "2");
  Checkpoint file(
      R"({"model_type": "phi", "num_attention_heads": 3, "partial_rotary_factor": 0.5})");
  file.linears("model.layers.0.self_attn.", {"q_proj", "k_proj", "v_proj", "dense"}, phi);
  CHECK(difference(file.load(phi).layer, phi) == "");

  Checkpoint mixer(R"({"n_head": 3, "rotary_dim": 2})");
  mixer.fused("layers.1.mixer.Wqkv", phi, one_after_the_other("qkv", phi.sizes))
      .linear("layers.1.mixer.out_proj", phi, "o");
  CHECK(difference(mixer.load(phi).layer, phi) == "");

  const CanonicalLayer phi3 = rotary().set("window_left", "2");
  Checkpoint fused(
      R"({"model_type": "phi3", "num_attention_heads": 6, "num_key_value_heads": 2, "sliding_window": 3})");
  fused.fused("model.layers.0.self_attn.qkv_proj", phi3, one_after_the_other("qkv", grouped));
  fused.linear("model.layers.0.self_attn.o_proj", phi3, "o");
  CHECK(difference(fused.load(phi3).layer, phi3) == "");
}

TEST_CASE("config.json against the tensors") {
  const CanonicalLayer layer = rotary();
  Checkpoint file(R"({"model_type": "llama", "num_attention_heads": 6, "head_dim": 5})");
  file.linears("model.layers.0.self_attn.", projections, layer);
  const mha::LoadedLayer loaded = file.load(layer);
  CHECK(notes_say(
      loaded,
      "config.json has head_dim 5, but " + file.path() +
          ": model.layers.0.self_attn.q_proj.weight is (24, 10): the tensor wins, 6 heads share "
          "its 24 rows"));
}
