#include "support/checkpoint.hpp"
#include <mha/observe/trace.hpp>
#include <mha/tensor/precision.hpp>

#include <catch2/catch.hpp>

#include <cmath>

// Encoders, and models of an encoder and a decoder.

namespace {

const std::vector<std::string> projections{"q_proj", "k_proj", "v_proj", "out_proj"};

} // namespace

TEST_CASE("BERT") {
  const CanonicalLayer layer;
  for (const std::string prefix : {"bert.", "roberta.", ""}) {
    Checkpoint file(R"({"model_type": "bert", "num_attention_heads": 3})");
    const std::string attention = prefix + "encoder.layer.1.attention.";
    file.linears(attention, {"self.query", "self.key", "self.value", "output.dense"}, layer);
    // The feed-forward part's names end like attention's.
    file.linear(prefix + "encoder.layer.1.output.dense", layer, "o");
    const mha::LoadedLayer loaded = file.load(layer);
    CHECK(loaded.naming == "BERT");
    CHECK(loaded.id == "1");
    CHECK(difference(loaded.layer, layer) == "");
  }
}

TEST_CASE("DistilBERT") {
  const CanonicalLayer layer;
  Checkpoint file(R"({"model_type": "distilbert", "n_heads": 3})");
  file.linears("distilbert.transformer.layer.0.attention.", {"q_lin", "k_lin", "v_lin", "out_lin"},
               layer);
  CHECK(difference(file.load(layer).layer, layer) == "");
}

TEST_CASE("ViT, with and without qkv_bias") {
  for (const char* biases : {"qkvo", "o"}) {
    const CanonicalLayer layer({}, biases);
    Checkpoint file(R"({"model_type": "vit", "num_attention_heads": 3})");
    file.linears("vit.encoder.layer.0.attention.",
                 {"attention.query", "attention.key", "attention.value", "output.dense"}, layer);
    const mha::LoadedLayer loaded = file.load(layer);
    CHECK(loaded.naming == "ViT");
    CHECK(difference(loaded.layer, layer) == "");
  }
}

TEST_CASE("timm and CLIP's own names") {
  const CanonicalLayer layer;
  const mha::Request heads = with("num_heads", "3");
  Checkpoint timm;
  timm.fused("blocks.0.attn.qkv", layer, one_after_the_other("qkv", layer.sizes))
      .linear("blocks.0.attn.proj", layer, "o");
  CHECK(difference(timm.load(layer, heads).layer, layer) == "");

  const CanonicalLayer causal = CanonicalLayer().set("causal", "true");
  for (const auto& [prefix, want] :
       {std::pair("visual.transformer.", &layer), {"transformer.", &causal}}) {
    const std::string attention = std::string(prefix) + "resblocks.0.attn.";
    Checkpoint clip;
    clip.add(attention + "in_proj_weight",
             stacked({mha::transposed((*want)["W_q"]), mha::transposed((*want)["W_k"]),
                      mha::transposed((*want)["W_v"])}));
    clip.add(attention + "in_proj_bias", stacked({(*want)["b_q"], (*want)["b_k"], (*want)["b_v"]}));
    clip.linear(attention + "out_proj", *want, "o");
    CHECK(difference(clip.load(*want, heads).layer, *want) == "");
  }
}

TEST_CASE("Hugging Face's CLIP: each tower has its own heads") {
  const CanonicalLayer vision,
      text = CanonicalLayer({.d_model = 8, .H = 2, .H_kv = 2}).set("causal", "true");
  Checkpoint file(R"({"model_type": "clip", "text_config": {"num_attention_heads": 2},
                      "vision_config": {"num_attention_heads": 3}})");
  for (const auto& [tower, layer] : {std::pair("vision", &vision), {"text", &text}}) {
    const std::string block = fmt::format("{}_model.encoder.layers.0.", tower);
    file.linears(block + "self_attn.", projections, *layer);
    file.add(block + "layer_norm1.weight", (*layer)["b_o"]);
  }
  CHECK(difference(file.load(vision, "vision.0").layer, vision) == "");
  CHECK(difference(file.load(text, "encoder.0").layer, text) == "");
}

TEST_CASE("Whisper: encoder, decoder and cross-attention") {
  const CanonicalLayer encoder({}, "qvo"),
      decoder = CanonicalLayer({}, "qvo").set("causal", "true");
  const CanonicalLayer cross({.S = 7}, "qvo");
  Checkpoint file(
      R"({"model_type": "whisper", "encoder_attention_heads": 3, "decoder_attention_heads": 3})");
  file.linears("model.encoder.layers.3.self_attn.", projections, encoder);
  file.linears("model.decoder.layers.3.self_attn.", projections, decoder);
  file.linears("model.decoder.layers.3.encoder_attn.", projections, cross);
  const std::vector<mha::LayerListing> list = file.layers();
  REQUIRE(list.size() == 3);
  CHECK(list[0].naming == "Whisper");
  for (const auto& [id, layer] :
       {std::pair("encoder.3", &encoder), {"decoder.3", &decoder}, {"decoder.3.cross", &cross}}) {
    CHECK(difference(file.load(*layer, id).layer, *layer) == "");
  }
}

TEST_CASE("Whisper as OpenAI names it: dims say the heads") {
  const CanonicalLayer encoder({}, "qvo");
  const CanonicalLayer decoder = CanonicalLayer({}, "qvo").set("causal", "true");
  const CanonicalLayer cross({.S = 7}, "qvo");
  const std::vector<std::string> modules{"query", "key", "value", "out"};
  Checkpoint file(R"({"n_audio_head": 3, "n_text_head": 3})");
  for (const auto& [attention, layer] : {std::pair("encoder.blocks.1.attn", &encoder),
                                         {"decoder.blocks.1.attn", &decoder},
                                         {"decoder.blocks.1.cross_attn", &cross}}) {
    file.linears(fmt::format("{}.", attention), modules, *layer);
    file.add(fmt::format("{}_ln.weight", attention), (*layer)["b_o"]);
  }
  REQUIRE(file.layers().size() == 3);
  CHECK(file.layers()[0].naming == "OpenAI's Whisper");
  for (const auto& [id, layer] :
       {std::pair("encoder.1", &encoder), {"decoder.1", &decoder}, {"decoder.1.cross", &cross}}) {
    INFO(id);
    const mha::LoadedLayer loaded = file.load(*layer, id);
    CHECK(difference(loaded.layer, *layer) == "");
    CHECK(notes_say(loaded, "must be the normalised input"));
  }
}

TEST_CASE("XGLM is a decoder, ESM-2 of fairseq rotates") {
  const CanonicalLayer causal = CanonicalLayer().set("causal", "true"),
                       rotated = CanonicalLayer().set("rope", "half");
  Checkpoint xglm(R"({"model_type": "xglm", "attention_heads": 3})");
  xglm.linears("model.layers.0.self_attn.", projections, causal);
  xglm.add("model.layers.0.self_attn_layer_norm.weight", causal["b_o"]);
  const mha::LoadedLayer decoder = xglm.load(causal);
  CHECK(difference(decoder.layer, causal) == "");
  CHECK(notes_say(decoder, "self_attn_layer_norm"));
  CHECK_FALSE(notes_say(decoder, "not known here"));

  Checkpoint esm(R"({"model": {"encoder_attention_heads": 3}})"); // fairseq's cfg
  const std::string block = "encoder.sentence_encoder.layers.0.";
  esm.linears(block + "self_attn.", projections, rotated);
  esm.add(block + "self_attn.rot_emb.inv_freq", rotated["b_o"]);
  esm.add(block + "self_attn_layer_norm.weight", rotated["b_o"]);
  const mha::LoadedLayer encoder = esm.load(rotated);
  CHECK(difference(encoder.layer, rotated) == "");
  CHECK(notes_say(encoder, "self_attn_layer_norm"));
}

TEST_CASE("what lies in attention's module and no family knows is told") {
  const CanonicalLayer layer;
  for (const std::string more : {"rel_pos_h", "rotary.inv_freq", "query_conv.3.weight"}) {
    Checkpoint file(R"({"model_type": "timm_wrapper"})");
    file.fused("blocks.0.attn.qkv", layer, one_after_the_other("qkv", layer.sizes))
        .linear("blocks.0.attn.proj", layer, "o")
        .add("blocks.0.attn." + more, layer["b_o"])
        .add("blocks.0.mlp.gate", layer["b_o"]);
    const mha::LoadedLayer loaded = file.load(layer, with("num_heads", "3"));
    INFO(more);
    CHECK(difference(loaded.layer, layer) == "");
    CHECK(notes_say(loaded, "in attention's module: blocks.0.attn." + more + ". If"));
  }
  // BERT's norm of the sum, and the frequencies of a rotation that is known.
  Checkpoint bert(R"({"model_type": "bert", "num_attention_heads": 3})");
  bert.linears("bert.encoder.layer.1.attention.",
               {"self.query", "self.key", "self.value", "output.dense"}, layer);
  bert.add("bert.encoder.layer.1.attention.output.LayerNorm.weight", layer["b_o"]);
  CHECK_FALSE(notes_say(bert.load(layer), "attention's module"));
}

TEST_CASE("an adapter alone, and weights that are quantised under their own names") {
  const CanonicalLayer layer;
  const std::string q = "model.layers.0.self_attn.q_proj.";
  for (const auto& [config, tensor, what] :
       {std::tuple("{}", "base_model.model." + q + "lora_A.weight", "is of an adapter, without"),
        {R"({"model_type": "llama"})", q + "qweight", "is of quantised weights"},
        {R"({"model_type": "llama"})", q + "scales", "is of quantised weights"}}) {
    INFO(tensor);
    Checkpoint file(config);
    file.add(tensor, layer["W_q"]);
    CHECK_THROWS_WITH(file.load(layer), Catch::Contains(tensor) && Catch::Contains(what));
  }
}

TEST_CASE("BART and OPT") {
  const CanonicalLayer encoder;
  Checkpoint bart(
      R"({"model_type": "bart", "encoder_attention_heads": 3, "decoder_attention_heads": 5})");
  bart.linears("model.encoder.layers.0.self_attn.", projections, encoder);
  const mha::LoadedLayer loaded = bart.load(encoder);
  CHECK(loaded.naming == "BART");
  CHECK(difference(loaded.layer, encoder) == "");

  const CanonicalLayer layer = CanonicalLayer().set("causal", "true");
  Checkpoint opt(R"({"model_type": "opt", "num_attention_heads": 3})");
  opt.linears("model.decoder.layers.0.self_attn.", projections, layer);
  CHECK(difference(opt.load(layer).layer, layer) == "");
}

TEST_CASE("T5: block 0's buckets in every block, none in cross-attention") {
  const LayerSizes sizes{.T = 9, .d_model = 10, .H = 3, .H_kv = 3, .d = 4}; // H · d ≠ d_model
  CanonicalLayer encoder =
      CanonicalLayer(sizes, "").set("scale", "none").add("relative_bias", {8, 3});
  encoder.set("relative_bidirectional", "true").set("relative_max_distance", "6");
  CanonicalLayer decoder =
      CanonicalLayer(sizes, "").set("scale", "none").add("relative_bias", {8, 3});
  decoder.set("relative_bidirectional", "false")
      .set("relative_max_distance", "6")
      .set("causal", "true");
  const CanonicalLayer cross =
      CanonicalLayer({.T = 4, .S = 7, .d_model = 10, .H = 3, .H_kv = 3, .d = 4}, "")
          .set("scale", "none");
  Checkpoint file(R"({"model_type": "t5", "num_heads": 3, "relative_attention_max_distance": 6})");
  for (const auto& [stack, layer] :
       {std::pair<const char*, const CanonicalLayer*>("encoder", &encoder),
        {"decoder", &decoder}}) {
    const std::string block = std::string(stack) + ".block.";
    file.add(block + "0.layer.0.SelfAttention.relative_attention_bias.weight",
             (*layer)["relative_bias"]);
    for (const char* number : {"0", "12"})
      file.linears(block + number + ".layer.0.SelfAttention.", {"q", "k", "v", "o"}, *layer);
  }
  file.linears("decoder.block.12.layer.1.EncDecAttention.", {"q", "k", "v", "o"}, cross);
  for (const auto& [id, layer] :
       {std::pair<const char*, const CanonicalLayer*>("encoder.0", &encoder),
        {"encoder.12", &encoder},
        {"decoder.0", &decoder},
        {"decoder.12", &decoder},
        {"decoder.12.cross", &cross}}) {
    CHECK(difference(file.load(*layer, id).layer, *layer) == "");
  }
}

TEST_CASE("DINOv3: pairs turn by a patch's row or column, and not without positions") {
  CanonicalLayer layer({.T = 6, .d_model = 20, .H = 2, .H_kv = 2, .d = 16}, "qvo");
  const std::size_t T = 6, d = 16;
  // A token that is no patch, and five patches of an image.
  const double rows[]{0, -0.75, -0.25, 0.5, 0.25, 0.75}, columns[]{0, 0.5, -0.5, 0.125, 0.75, -1};
  mha::Tensor positions(mha::DType::f64, {3, T});
  for (std::size_t t = 0; t < T; ++t) {
    positions.as_mutable<double>()[T + t] = 2 * M_PI * rows[t];
    positions.as_mutable<double>()[2 * T + t] = 2 * M_PI * columns[t];
  }
  const auto file_of = [&](const CanonicalLayer& of) {
    Checkpoint file(R"({"model_type": "dinov3_vit", "num_attention_heads": 2, "rope_theta": 100})");
    file.linears("layer.0.attention.", {"q_proj", "k_proj", "v_proj", "o_proj"}, layer);
    file.add("layer.0.norm1.weight", mha::Tensor(mha::DType::f32, {20}));
    return file.load(of, with("input_norm", "none"));
  };
  CHECK_THROWS_WITH(file_of(layer), Catch::Contains("(3, 6): zeros, each token's row, its column"));
  layer.tensors["positions"] = positions;
  const mha::Layer loaded = file_of(layer).layer;
  const mha::Trace trace = mha::trace(loaded, {mha::Stage::q, mha::Stage::q_rope});
  const mha::Tensor &q = trace.value(mha::Stage::q), &turned = trace.value(mha::Stage::q_rope);
  for (std::size_t h = 0; h < 2; ++h)
    for (std::size_t t = 0; t < T; ++t)
      for (std::size_t p = 0; p < d / 2; ++p) {
        const double coordinate = p < d / 4 ? rows[t] : columns[t];
        const double angle =
            2 * M_PI * coordinate * std::pow(100.0, -4.0 * static_cast<double>(p % (d / 4)) / 16);
        const std::size_t at = (h * T + t) * d + p;
        const double a = value_at(q, at), b = value_at(q, at + d / 2);
        CHECK(value_at(turned, at) ==
              Approx(a * std::cos(angle) - b * std::sin(angle)).margin(1e-6));
        CHECK(value_at(turned, at + d / 2) ==
              Approx(b * std::cos(angle) + a * std::sin(angle)).margin(1e-6));
      }
}

TEST_CASE("Swin: a table and an index that do not go together are refused") {
  struct Row {
    mha::Shape table, index;
    std::int64_t number; ///< in the index
    const char* said;
  };
  for (const Row& row :
       {Row{{9, 3},
            {4, 4},
            9,
            "relative_position_index holds 9 at [0, 0]: a row of the table "
            "expected, 0 to 8"},
        {{9, 3}, {4, 4}, -1, "relative_position_index holds -1 at [0, 0]"},
        {{9, 3},
         {2, 4},
         0,
         "relative_position_index is (2, 4): a row for each token of a window "
         "and as many columns expected"},
        {{9, 3},
         {5, 5},
         0,
         "relative_position_bias_table, a part of it, is (3, 5, 5): it does not broadcast"},
        {{10, 3},
         {},
         0,
         "relative_position_bias_table is (10, 3): without "
         "self.relative_position_index a square window's (2 M - 1)² rows expected"},
        {{27}, {}, 0, "relative_position_bias_table is (27,): (rows, heads) expected"}}) {
    const CanonicalLayer layer({.T = 4});
    Checkpoint file(R"({"model_type": "swin"})");
    const std::string prefix = "encoder.layers.0.blocks.0.attention.";
    file.linears(prefix, {"self.query", "self.key", "self.value", "output.dense"}, layer);
    file.add(prefix + "self.relative_position_bias_table", mha::Tensor(mha::DType::f32, row.table));
    mha::Tensor index(mha::DType::i64, row.index);
    if (!row.index.empty()) {
      index.as_mutable<std::int64_t>()[0] = row.number;
      file.add(prefix + "self.relative_position_index", index);
    }
    INFO(row.said);
    CHECK_THROWS_WITH(file.load(layer, with("num_heads", "3")), Catch::Contains(row.said));
  }
}
