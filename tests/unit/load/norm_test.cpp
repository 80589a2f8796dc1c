#include "support/checkpoint.hpp"

#include <catch2/catch.hpp>

// input_norm = checkpoint: the layer's own normalisation, so that hidden states can be X.

namespace {

const std::vector<std::string> projections{"q_proj", "k_proj", "v_proj", "o_proj"};
const std::string block = "model.layers.0.";

CanonicalLayer rotary() {
  return CanonicalLayer({}, "").set("causal", "true").set("rope", "half");
}

} // namespace

TEST_CASE("RMS normalisation before LLaMA's attention") {
  CanonicalLayer plain = rotary();
  CanonicalLayer layer = plain;
  layer.add("norm.weight", {12}).set("input_norm", "rms").set("input_norm_eps", "1e-5");
  Checkpoint file(R"({"num_attention_heads": 3, "rms_norm_eps": 1e-05})");
  file.linears(block + "self_attn.", projections, layer)
      .add(block + "input_layernorm.weight", layer["norm.weight"]);
  const mha::LoadedLayer loaded = file.load(layer, with("input_norm", "checkpoint"));
  CHECK(difference(loaded.layer, layer) == "");
  CHECK_FALSE(notes_say(loaded, "X must be the normalised input"));

  // Without it the weights do not matter, and a note states what X must be.
  const mha::LoadedLayer without = file.load(plain);
  CHECK(difference(without.layer, plain) == "");
  CHECK(notes_say(
      without,
      "X must be the normalised input (the output of model.layers.0.input_layernorm), or give "
      "input_norm checkpoint"));
  CHECK_FALSE(notes_say(file.load(plain, with("input_norm", "none")), "X must be"));

  // rms alone has no weights.
  layer.tensors.erase("norm.weight");
  CHECK(difference(file.load(layer, with("input_norm", "rms")).layer, layer) == "");
}

TEST_CASE("a layer without its normalisation's weights") {
  const CanonicalLayer layer = rotary();
  Checkpoint file(R"({"num_attention_heads": 3})");
  file.linears(block + "self_attn.", projections, layer);
  CHECK_THROWS_WITH(file.load(layer, with("input_norm", "checkpoint")),
                    "input_norm is checkpoint, but " + file.path() +
                        " has no model.layers.0.input_layernorm.weight; "
                        "give {\"norm.weight\", tensor}, or layer or rms");
}

TEST_CASE("Gemma's normalisation multiplies by 1 + w, in float32 whatever the file has") {
  CanonicalLayer layer = rotary();
  layer.add("norm.weight", {12}).round_to_bf16();
  Checkpoint file(R"({"model_type": "gemma", "num_attention_heads": 3})");
  file.linears(block + "self_attn.", projections, layer)
      .add(block + "input_layernorm.weight", layer["norm.weight"]);
  file.store_as(mha::DType::bf16);
  const mha::Tensor w = layer["norm.weight"];
  mha::Tensor one_plus(mha::DType::f32, {12});
  for (std::size_t i = 0; i < 12; ++i) one_plus.as_mutable<float>()[i] = 1 + w.as<float>()[i];
  layer.tensors["norm.weight"] = one_plus;
  layer.set("input_norm", "rms").set("input_norm_eps", "1e-6");
  CHECK(difference(file.load(layer, with("input_norm", "checkpoint")).layer, layer) == "");
}

TEST_CASE("layer normalisation with its bias before GPT-J's attention") {
  CanonicalLayer layer = CanonicalLayer({}, "").set("causal", "true").set("rope", "interleaved");
  layer.add("norm.weight", {12}).add("norm.bias", {12}).set("input_norm", "layer");
  Checkpoint file(R"({"model_type": "gptj", "n_head": 3, "rotary_dim": 4})");
  file.linears("transformer.h.0.attn.", {"q_proj", "k_proj", "v_proj", "out_proj"}, layer);
  file.add("transformer.h.0.ln_1.weight", layer["norm.weight"])
      .add("transformer.h.0.ln_1.bias", layer["norm.bias"]);
  CHECK(difference(file.load(layer, with("input_norm", "checkpoint")).layer, layer) == "");
}

TEST_CASE("BERT normalises after attention: checkpoint is none") {
  const CanonicalLayer layer;
  Checkpoint file(R"({"model_type": "bert", "num_attention_heads": 3})");
  file.linears("encoder.layer.0.attention.",
               {"self.query", "self.key", "self.value", "output.dense"}, layer);
  const mha::LoadedLayer loaded = file.load(layer, with("input_norm", "checkpoint"));
  CHECK(difference(loaded.layer, layer) == "");
  CHECK(notes_say(loaded, "BERT normalises after attention: input_norm checkpoint is none"));
}

TEST_CASE("names that do not tell where the normalisation is") {
  const CanonicalLayer layer;
  Checkpoint file(R"({"num_attention_heads": 3})");
  file.linears("model.encoder.layers.0.self_attn.", {"q_proj", "k_proj", "v_proj", "out_proj"},
               layer);
  CHECK_THROWS_WITH(file.load(layer, with("input_norm", "checkpoint")),
                    "input_norm: input_norm is checkpoint, but nothing in these files defines the "
                    "model's norm; "
                    "give layer or rms");
}

TEST_CASE("BART's kin normalise where their model_type says") {
  for (const auto& [type, before] : {std::pair("mbart", true),
                                     {"m2m_100", true},
                                     {"pegasus", true},
                                     {"blenderbot", true},
                                     {"bart", false},
                                     {"marian", false},
                                     {"blenderbot-small", false}}) {
    INFO(type);
    CanonicalLayer layer = CanonicalLayer().set("causal", "true");
    Checkpoint file(fmt::format(R"({{"model_type": "{}", "encoder_attention_heads": 5, )"
                                R"("decoder_attention_heads": 3}})",
                                type));
    const std::string at = "model.decoder.layers.0.";
    file.linears(at + "self_attn.", {"q_proj", "k_proj", "v_proj", "out_proj"}, layer);
    layer.add("norm.weight", {12}).add("norm.bias", {12});
    file.add(at + "self_attn_layer_norm.weight", layer["norm.weight"])
        .add(at + "self_attn_layer_norm.bias", layer["norm.bias"]);
    if (before)
      layer.set("input_norm", "layer");
    else
      layer.tensors.erase("norm.weight"), layer.tensors.erase("norm.bias");
    CHECK(difference(file.load(layer, with("input_norm", "checkpoint")).layer, layer) == "");
  }
}

TEST_CASE("vision transformers normalise before attention, under either name") {
  for (const auto& [type, name, eps] : {std::tuple("vit", "layernorm_before", ""),
                                        {"deit", "layernorm_before", ""},
                                        {"vit_mae", "layernorm_before", ""},
                                        {"dinov2", "norm1", R"(, "layer_norm_eps": 1e-6)"}}) {
    INFO(type);
    CanonicalLayer layer;
    Checkpoint file(
        fmt::format(R"({{"model_type": "{}", "num_attention_heads": 3{}}})", type, eps));
    const std::string at = "encoder.layer.0.";
    file.linears(at + "attention.",
                 {"attention.query", "attention.key", "attention.value", "output.dense"}, layer);
    layer.add("norm.weight", {12}).add("norm.bias", {12}).set("input_norm", "layer");
    layer.set("input_norm_eps", *eps ? "1e-6" : "1e-12");
    file.add(at + name + ".weight", layer["norm.weight"])
        .add(at + name + ".bias", layer["norm.bias"]);
    CHECK(difference(file.load(layer, with("input_norm", "checkpoint")).layer, layer) == "");
  }
}

TEST_CASE("SigLIP's text tower sees all of the text, CLIP's what came before") {
  for (const auto& [type, causal] : {std::pair("siglip", "false"), {"clip", "true"}}) {
    INFO(type);
    const CanonicalLayer layer = CanonicalLayer().set("causal", causal);
    Checkpoint file(fmt::format(
        R"({{"model_type": "{}", "text_config": {{"num_attention_heads": 3}}}})", type));
    const std::string at = "text_model.encoder.layers.0.";
    file.linears(at + "self_attn.", {"q_proj", "k_proj", "v_proj", "out_proj"}, layer)
        .add(at + "layer_norm1.weight", layer["b_o"]);
    CHECK(difference(file.load(layer).layer, layer) == "");
  }
}
