#include "support/checkpoint.hpp"

#include <catch2/catch.hpp>

#include <cmath>

// Names of libraries rather than models.

using namespace mha;

TEST_CASE("PyTorch's MultiheadAttention") {
  const CanonicalLayer layer = CanonicalLayer().add("k_extra", {12}).add("v_extra", {12});
  Checkpoint file(R"({"num_attention_heads": 3})");
  const std::string prefix = "encoder.layers.0.self_attn.";
  file.add(prefix + "in_proj_weight",
           stacked({transposed(layer["W_q"]), transposed(layer["W_k"]), transposed(layer["W_v"])}));
  file.add(prefix + "in_proj_bias", stacked({layer["b_q"], layer["b_k"], layer["b_v"]}));
  file.linear(prefix + "out_proj", layer, "o");
  file.add(prefix + "bias_k", layer["k_extra"].reshaped({1, 1, 12}))
      .add(prefix + "bias_v", layer["v_extra"].reshaped({1, 1, 12}));
  CHECK(difference(file.load(layer).layer, layer) == "");
}

namespace {

/// W_q of (in, H · d) as (H, in, d).
Tensor per_head(const Tensor& W, std::size_t H) {
  const std::size_t in = W.shape()[0], d = W.shape()[1] / H;
  return permuted(W.reshaped({in, H, d}), {1, 0, 2});
}

} // namespace

TEST_CASE("TransformerLens") {
  const LayerSizes sizes{.d_model = 10, .H = 6, .H_kv = 2, .d = 4};
  const CanonicalLayer layer = CanonicalLayer(sizes).set("causal", "true");
  Checkpoint file;
  const std::string prefix = "blocks.0.attn.";
  file.add(prefix + "W_Q", per_head(layer["W_q"], 6))
      .add(prefix + "b_Q", layer["b_q"].reshaped({6, 4}));
  file.add(prefix + "_W_K", per_head(layer["W_k"], 2))
      .add(prefix + "_b_K", layer["b_k"].reshaped({2, 4}));
  file.add(prefix + "_W_V", per_head(layer["W_v"], 2))
      .add(prefix + "_b_V", layer["b_v"].reshaped({2, 4}));
  file.add(prefix + "W_O", layer["W_o"].reshaped({6, 4, 10})).add(prefix + "b_O", layer["b_o"]);
  file.add(prefix + "mask", Tensor(DType::boolean, {9, 9}))
      .add(prefix + "IGNORE", Tensor(DType::f32, {}));
  const LoadedLayer loaded = file.load(layer);
  CHECK(loaded.naming == "TransformerLens");
  CHECK(difference(loaded.layer, layer) == "");
}

TEST_CASE("TransformerLens' rotary tables tell the pairs") {
  for (const char* style : {"half", "interleaved"}) {
    const bool half = std::string(style) == "half";
    const CanonicalLayer layer =
        CanonicalLayer({.d = 6}).set("causal", "true").set("rope", style).set("rope_dims", "4");
    Tensor sines(DType::f32, {5, 4});
    for (std::size_t t = 0; t < 5; ++t)
      for (std::size_t i = 0; i < 4; ++i)
        sines.as_mutable<float>()[t * 4 + i] = static_cast<float>(
            std::sin(static_cast<double>(t) *
                     std::pow(10000.0, -2.0 * static_cast<double>(half ? i % 2 : i / 2) / 4)));
    Checkpoint file;
    const std::string prefix = "blocks.0.attn.";
    for (const auto& [name, tl] : {std::pair("q", "Q"), {"k", "K"}, {"v", "V"}})
      file.add(prefix + "W_" + tl, per_head(layer[std::string("W_") + name], 3))
          .add(prefix + "b_" + tl, layer[std::string("b_") + name].reshaped({3, 6}));
    file.add(prefix + "W_O", layer["W_o"].reshaped({3, 6, 12})).add(prefix + "b_O", layer["b_o"]);
    file.add(prefix + "rotary_sin", sines).add(prefix + "rotary_cos", sines);
    CHECK(difference(file.load(layer).layer, layer) == "");
  }
}

TEST_CASE("Keras and Flax") {
  const LayerSizes sizes{.d_model = 10, .H = 6, .H_kv = 2, .d = 4};
  const CanonicalLayer layer(sizes);
  struct Style {
    std::string prefix, separator, out, suffix;
  };
  for (const Style& style :
       {Style{"multi_head_attention", "/", "attention_output", ":0"},
        {"encoder.layer_1", ".", "out", ""},
        {"Transformer/encoderblock_3/MultiHeadDotProductAttention_1", "/", "out", ""}}) {
    Checkpoint file;
    const auto add = [&](const std::string& module, const std::string& what, const Tensor& tensor) {
      file.add(style.prefix + style.separator + module + style.separator + what + style.suffix,
               tensor);
    };
    for (const auto& [letter, name, heads] :
         {std::tuple("q", "query", 6u), {"k", "key", 2u}, {"v", "value", 2u}}) {
      add(name, "kernel", layer[std::string("W_") + letter].reshaped({10, heads, 4}));
      add(name, "bias", layer[std::string("b_") + letter].reshaped({heads, 4}));
    }
    add(style.out, "kernel", layer["W_o"].reshaped({6, 4, 10})),
        add(style.out, "bias", layer["b_o"]);
    const LoadedLayer loaded = file.load(layer);
    CHECK(loaded.naming == "Keras and Flax");
    CHECK(difference(loaded.layer, layer) == "");
  }
}

TEST_CASE("GeometricMachineLearning: columns, queries and keys exchanged, as its code has it") {
  CanonicalLayer layer({}, "");
  layer.tensors.erase("W_o");
  layer.tensors["X"] = transposed(layer["X"]); // d_model × T
  layer.set("columns", "true").set("scale", "d_model").set("residual", "true");
  for (const bool turned : {false, true}) {
    Checkpoint file;
    for (const auto& [name, canonical] : {std::pair("PQ", "W_k"), {"PK", "W_q"}, {"PV", "W_v"}}) {
      const Tensor heads = per_head(layer[canonical], 3);
      for (std::size_t h = 0; h < 3; ++h)
        file.add(fmt::format("L1.{}.head_{}", name, h + 1),
                 turned ? transposed(heads.at(h)) : heads.at(h));
    }
    const LoadedLayer loaded = file.load(layer);
    CHECK(loaded.naming == "GeometricMachineLearning");
    CHECK(difference(loaded.layer, layer) == "");
    CHECK(notes_say(loaded, "W_q is PK and W_k is PQ, as in the code"));
  }
}

TEST_CASE("parts of a layer of columns are columns, as its settings say") {
  CanonicalLayer layer({}, "");
  layer.tensors.erase("W_o"), layer.tensors.erase("X");
  Checkpoint file;
  for (const auto& [name, canonical] : {std::pair("PQ", "W_k"), {"PK", "W_q"}, {"PV", "W_v"}})
    for (std::size_t h = 0; h < 3; ++h)
      file.add(fmt::format("{}.head_{}", name, h + 1), per_head(layer[canonical], 3).at(h));
  file.write();
  Request request;
  request.sources = {file.path()};
  const Sources model(request);
  for (const Sources::SourceTensor& part : model.tensors_of(""))
    CHECK(part.tensor.shape() == Shape{3, 4, 12}); // (H, d_h, dim): applied from the left
}
