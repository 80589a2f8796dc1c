#include "support/checkpoint.hpp"

#include <catch2/catch.hpp>

#include <cmath>

// GPT-2 and what came of it.

namespace {

CanonicalLayer causal(LayerSizes sizes = {}, const std::string& biases = "qkvo") {
  CanonicalLayer layer(sizes, biases);
  layer.set("causal", "true");
  return layer;
}

/// c_attn and c_proj as Conv1D: (in, out).
void add_gpt2(Checkpoint& file, const std::string& prefix, const CanonicalLayer& layer) {
  Checkpoint linear;
  const LayerSizes& s = layer.sizes;
  std::vector<mha::Tensor> rows, biases;
  for (const char* name : {"q", "k", "v"}) {
    rows.push_back(mha::transposed(layer[std::string("W_") + name]));
    const mha::Tensor b = layer[std::string("b_") + name];
    biases.push_back(b);
  }
  file.add(prefix + "c_attn.weight", mha::transposed(stacked(rows)));
  file.add(prefix + "c_attn.bias", stacked(biases));
  file.add(prefix + "c_proj.weight", layer["W_o"]).add(prefix + "c_proj.bias", layer["b_o"]);
  // The causal mask as older files have it.
  file.add(prefix + "bias", mha::Tensor(mha::DType::u8, {1, 1, s.T + 3, s.T + 3}));
  file.add(prefix + "masked_bias", mha::Tensor(mha::DType::f32, {}));
}

} // namespace

TEST_CASE("GPT-2's names of other models: GPT-1 is post-norm") {
  const CanonicalLayer layer = causal();
  for (const auto& [type, is_normed] : {std::pair("gpt2", true), {"openai-gpt", false}}) {
    Checkpoint file(fmt::format(R"({{"model_type": "{}", "n_head": 3}})", type));
    add_gpt2(file, "transformer.h.0.attn.", layer);
    file.add("transformer.h.0.ln_1.weight", layer["b_o"])
        .add("transformer.h.0.ln_1.bias", layer["b_o"]);
    const mha::LoadedLayer loaded = file.load(layer);
    INFO(type);
    CHECK(difference(loaded.layer, layer) == "");
    CHECK(notes_say(loaded, "must be the normalised input") == is_normed);
  }
}

TEST_CASE("GPT-2") {
  const CanonicalLayer layer = causal();
  for (const std::string prefix :
       {"transformer.h.2.attn.", "h.2.attn.", "module.transformer.h.2.attn.", ""}) {
    for (const bool settled : {true, false}) { // by config.json
      Checkpoint file(settled ? R"({"model_type": "gpt2", "n_head": 3})" : R"({"n_head": 3})");
      add_gpt2(file, prefix, layer);
      const mha::LoadedLayer loaded = file.load(layer);
      CHECK(loaded.naming == "GPT-2");
      CHECK(difference(loaded.layer, layer) == "");
      CHECK(notes_say(loaded, file.path() + ": " + prefix +
                                  "bias is the causal mask's buffer, not a bias: skipped"));
      CHECK(
          notes_say(
              loaded,
              prefix +
                  "c_proj.weight is square, (12, 12): taken as (in, out), as GPT-2 names have it; "
                  "naming nanogpt or {\"W_o\", tensor} reads it the other way") == !settled);
    }
  }
}

TEST_CASE("GPT-2's scale can go down with the layers") {
  Checkpoint file(
      R"({"model_type": "gpt2", "n_head": 3, "scale_attn_by_inverse_layer_idx": true})");
  const CanonicalLayer layer = causal().set("scale", fmt::format("{}", 1 / std::sqrt(4.0) / 3));
  add_gpt2(file, "h.2.attn.", layer);
  CHECK(difference(file.load(layer).layer, layer) == "");

  Checkpoint unscaled(R"({"model_type": "gpt2", "n_head": 3, "scale_attn_weights": false})");
  const CanonicalLayer one = causal().set("scale", "none");
  add_gpt2(unscaled, "h.2.attn.", one);
  CHECK(difference(unscaled.load(one).layer, one) == "");
}

TEST_CASE("GPT-2's cross-attention") {
  const LayerSizes sizes{.S = 7};
  const CanonicalLayer layer(sizes);
  Checkpoint file(R"({"n_head": 3})");
  const std::string prefix = "transformer.h.0.crossattention.";
  file.add(prefix + "q_attn.weight", layer["W_q"]).add(prefix + "q_attn.bias", layer["b_q"]);
  file.add(prefix + "c_attn.weight", mha::transposed(stacked({mha::transposed(layer["W_k"]),
                                                              mha::transposed(layer["W_v"])})));
  file.add(prefix + "c_attn.bias", stacked({layer["b_k"], layer["b_v"]}));
  file.add(prefix + "c_proj.weight", layer["W_o"]).add(prefix + "c_proj.bias", layer["b_o"]);
  add_gpt2(file, "transformer.h.0.attn.", causal());
  CHECK(file.layers().at(0).id == "0");
  CHECK(difference(file.load(layer, "0.cross").layer, layer) == "");
}

TEST_CASE("nanoGPT and both minGPTs") {
  const CanonicalLayer layer = causal();
  Checkpoint nano(R"({"n_head": 3})");
  nano.fused("_orig_mod.transformer.h.0.attn.c_attn", layer,
             one_after_the_other("qkv", layer.sizes));
  nano.linear("_orig_mod.transformer.h.0.attn.c_proj", layer, "o");
  const mha::LoadedLayer loaded = nano.load(layer);
  CHECK(loaded.naming == "nanoGPT");
  CHECK(difference(loaded.layer, layer) == "");

  Checkpoint old(R"({"n_head": 3})");
  old.linears("blocks.0.attn.", {"query", "key", "value", "proj"}, layer);
  CHECK(difference(old.load(layer).layer, layer) == "");
}

TEST_CASE("a forced naming reads the square matrix the other way") {
  const CanonicalLayer layer = causal();
  Checkpoint file(R"({"n_head": 3})");
  add_gpt2(file, "h.0.attn.", layer);
  mha::Request more;
  more.naming = "nanogpt";
  CHECK_THROWS_WITH(file.load(layer, more),
                    Catch::Contains("h.0.attn.c_attn.weight, transposed, is (36, 12)"));
  more.naming = "gtp2";
  CHECK_THROWS_WITH(file.load(layer, more),
                    Catch::Contains("no naming is called 'gtp2'; did you mean 'gpt2'?"));
}

TEST_CASE("GPT-BigCode") {
  const LayerSizes one_key{.H_kv = 1};
  const CanonicalLayer layer = causal(one_key);
  for (const char* config :
       {R"({"model_type": "gpt_bigcode", "n_head": 3, "multi_query": true})", R"({"n_head": 3})"}) {
    Checkpoint file(config);
    file.fused("transformer.h.0.attn.c_attn", layer, one_after_the_other("qkv", one_key));
    file.linear("transformer.h.0.attn.c_proj", layer, "o");
    const mha::LoadedLayer loaded = file.load(layer);
    CHECK(loaded.naming == "GPT-BigCode");
    CHECK(difference(loaded.layer, layer) == "");
    const bool settled = std::string_view(config).find("model_type") != std::string_view::npos;
    CHECK(notes_say(loaded, "read as GPT-BigCode; naming gpt2 or nanogpt reads it otherwise") ==
          !settled);
  }
  const CanonicalLayer heads = causal();
  Checkpoint file(R"({"model_type": "gpt_bigcode", "n_head": 3, "multi_query": false})");
  file.fused("h.0.attn.c_attn", heads, by_group(heads.sizes)).linear("h.0.attn.c_proj", heads, "o");
  CHECK(difference(file.load(heads).layer, heads) == "");

  Checkpoint by_layer(R"({"model_type": "gpt_bigcode", "n_head": 3, "multi_query": false,
                          "scale_attn_by_inverse_layer_idx": true})"); // a key of GPT-2 alone
  by_layer.fused("h.2.attn.c_attn", heads, by_group(heads.sizes));
  by_layer.linear("h.2.attn.c_proj", heads, "o");
  const mha::LoadedLayer told = by_layer.load(heads);
  CHECK(difference(told.layer, heads) == "");
  CHECK(notes_say(told, "not read here: scale_attn_by_inverse_layer_idx true"));
}

TEST_CASE("GPT-Neo: no scale, a window on local layers") {
  CanonicalLayer global = causal({.d_model = 10}, "o").set("scale", "none");
  const CanonicalLayer local = CanonicalLayer(global).set("window_left", "1");
  const std::vector<std::string> modules{"q_proj", "k_proj", "v_proj", "out_proj"};
  for (const char* kinds : {R"("attention_types": [[["global", "local"], 12]])",
                            R"("attention_layers": ["global", "local"])"}) {
    Checkpoint file(
        fmt::format(R"({{"model_type": "gpt_neo", "num_heads": 3, "window_size": 2, {}}})", kinds));
    file.linears("transformer.h.0.attn.attention.", modules, global);
    file.linears("transformer.h.1.attn.attention.", modules, local);
    CHECK(difference(file.load(global, "0").layer, global) == "");
    CHECK(difference(file.load(local, "1").layer, local) == "");
  }
  Checkpoint bare;
  bare.linears("transformer.h.1.attn.attention.", modules, global);
  const mha::LoadedLayer loaded = bare.load(global, with("num_heads", "3"));
  CHECK(loaded.naming == "GPT-Neo");
  CHECK(difference(loaded.layer, global) == "");
  CHECK(notes_say(loaded, "no setting in config.json makes this layer local or global"));
}

TEST_CASE("GPT-J") {
  const CanonicalLayer layer = causal({}, "").set("rope", "interleaved").set("rope_dims", "2");
  Checkpoint file(R"({"model_type": "gptj", "n_head": 3, "rotary_dim": 2})");
  file.linears("transformer.h.0.attn.", {"q_proj", "k_proj", "v_proj", "out_proj"}, layer);
  const mha::LoadedLayer loaded = file.load(layer);
  CHECK(loaded.naming == "GPT-J");
  CHECK(difference(loaded.layer, layer) == "");
}

TEST_CASE("CodeGen: four blocks, each its queries, values, keys") {
  const LayerSizes sizes{.d_model = 30, .H = 8, .H_kv = 8, .d = 4};
  const CanonicalLayer layer = causal(sizes, "").set("rope", "interleaved").set("rope_dims", "2");
  std::vector<std::pair<char, std::size_t>> runs;
  for (std::size_t block = 0; block < 4; ++block)
    for (char letter : {'q', 'v', 'k'})
      for (std::size_t h : {2 * block, 2 * block + 1}) runs.emplace_back(letter, h);
  Checkpoint file(R"({"model_type": "codegen", "n_head": 8, "rotary_dim": 2})");
  file.fused("transformer.h.0.attn.qkv_proj", layer, runs)
      .linear("transformer.h.0.attn.out_proj", layer, "o");
  CHECK(difference(file.load(layer).layer, layer) == "");
}

TEST_CASE("GPT-NeoX") {
  const LayerSizes sizes{.d_model = 14, .H = 3, .H_kv = 3, .d = 8};
  const CanonicalLayer layer =
      causal(sizes).set("rope", "half").set("rope_dims", "2").set("rope_base", "20000");
  Checkpoint file(
      R"({"model_type": "gpt_neox", "num_attention_heads": 3, "rotary_pct": 0.25, "rotary_emb_base": 20000})");
  file.fused("gpt_neox.layers.0.attention.query_key_value", layer, by_group(sizes));
  file.linear("gpt_neox.layers.0.attention.dense", layer, "o");
  file.add("gpt_neox.layers.0.attention.bias", mha::Tensor(mha::DType::boolean, {1, 1, 8, 8}));
  const mha::LoadedLayer loaded = file.load(layer);
  CHECK(loaded.naming == "GPT-NeoX");
  CHECK(difference(loaded.layer, layer) == "");
  CHECK(notes_say(loaded, "attention.bias is the causal mask's buffer"));
}

TEST_CASE("BLOOM") {
  const CanonicalLayer layer = causal().set("alibi", "bloom");
  for (const char* config : {R"({"model_type": "bloom", "n_head": 3})", R"({"n_head": 3})"}) {
    Checkpoint file(config);
    file.fused("h.0.self_attention.query_key_value", layer, by_group(layer.sizes));
    file.linear("h.0.self_attention.dense", layer, "o");
    const mha::LoadedLayer loaded = file.load(layer);
    CHECK(loaded.naming == "BLOOM");
    CHECK(difference(loaded.layer, layer) == "");
  }
}

TEST_CASE("Falcon's three layouts") {
  const std::string module = "transformer.h.0.self_attention.query_key_value";
  const LayerSizes groups{.d_model = 24, .H = 6, .H_kv = 2, .d = 4}, one_key{.H_kv = 1}, heads{};
  struct Layout {
    const char* config;
    LayerSizes sizes;
    std::vector<std::pair<char, std::size_t>> runs;
  };
  for (const Layout& layout :
       {Layout{R"("new_decoder_architecture": true, "num_attention_heads": 6, "num_kv_heads": 2)",
               groups, by_group(groups)},
        Layout{R"("multi_query": true, "num_attention_heads": 3)", one_key,
               one_after_the_other("qkv", one_key)},
        Layout{R"("multi_query": false, "num_attention_heads": 3)", heads, by_group(heads)}}) {
    const CanonicalLayer layer = causal(layout.sizes, "").set("rope", "half");
    Checkpoint file(fmt::format(R"({{"model_type": "falcon", {}}})", layout.config));
    file.fused(module, layer, layout.runs)
        .linear("transformer.h.0.self_attention.dense", layer, "o");
    CHECK(difference(file.load(layer).layer, layer) == "");
  }
  const CanonicalLayer layer = causal(heads).set("alibi", "falcon");
  Checkpoint file(
      R"({"model_type": "falcon", "multi_query": false, "alibi": true, "num_attention_heads": 3})");
  file.fused(module, layer, by_group(heads))
      .linear("transformer.h.0.self_attention.dense", layer, "o");
  CHECK(difference(file.load(layer).layer, layer) == "");
}

TEST_CASE("MPT") {
  const CanonicalLayer layer = causal({}, "").set("alibi", "mpt");
  Checkpoint file(
      R"({"model_type": "mpt", "n_heads": 3, "attn_config": {"alibi": true, "clip_qkv": null}})");
  file.fused("transformer.blocks.0.attn.Wqkv", layer, one_after_the_other("qkv", layer.sizes));
  file.linear("transformer.blocks.0.attn.out_proj", layer, "o");
  CHECK(difference(file.load(layer).layer, layer) == "");

  Checkpoint clipped(R"({"model_type": "mpt", "n_heads": 3, "attn_config": {"clip_qkv": 6}})");
  clipped.fused("blocks.0.attn.Wqkv", layer, one_after_the_other("qkv", layer.sizes));
  clipped.linear("blocks.0.attn.out_proj", layer, "o");
  CanonicalLayer within = layer;
  within.set("clip_qkv", "6");
  CHECK(difference(clipped.load(layer).layer, within) == "");

  const CanonicalLayer plain = causal({}, "");
  Checkpoint without(R"({"model_type": "mpt", "n_heads": 3, "attn_config": {"alibi": false}})");
  without.fused("blocks.0.attn.Wqkv", plain, one_after_the_other("qkv", plain.sizes));
  without.linear("blocks.0.attn.out_proj", plain, "o");
  const mha::LoadedLayer told = without.load(plain);
  CHECK(difference(told.layer, plain) == "");
  CHECK(notes_say(told, "attn_config.alibi false"));
  CanonicalLayer biased = plain;
  biased.set("alibi", "mpt");
  const mha::LoadedLayer asked = without.load(plain, with("alibi", "mpt"));
  CHECK(difference(asked.layer, biased) == "");
  CHECK_FALSE(notes_say(asked, "attn_config.alibi false"));
}
