#include "support/checkpoint.hpp"
#include <mha/load/families/family.hpp>

#include <catch2/catch.hpp>

#include <fstream>

// Which layers a file holds, what they are called, and who decides about their settings.

namespace {

const std::vector<std::string> projections{"q_proj", "k_proj", "v_proj", "o_proj"};

CanonicalLayer rotary() {
  return CanonicalLayer({}, "").set("causal", "true").set("rope", "half");
}

} // namespace

TEST_CASE("the number of a layer in its prefix") {
  using mha::naming::layer_number;
  CHECK(layer_number("model.layers.12.self_attn.") == 12);
  CHECK(layer_number("decoder.block.3.layer.1.EncDecAttention.") == 3);
  CHECK(layer_number("Transformer/encoderblock_7/MultiHeadDotProductAttention_1/") == 7);
  CHECK(layer_number("multi_head_attention_2/") == 2);
  CHECK(layer_number("self_attn.").has_value() == false);
  CHECK(layer_number("layernorm1.x2.").has_value() == false);
}

TEST_CASE("layers in the order of their numbers, with family and prefix") {
  const CanonicalLayer layer = rotary();
  Checkpoint file(R"({"num_attention_heads": 3})");
  for (const char* number : {"10", "2", "0"})
    file.linears(fmt::format("model.layers.{}.self_attn.", number), projections, layer);
  const std::vector<mha::LayerListing> list = file.layers();
  REQUIRE(list.size() == 3);
  CHECK(list[1].id == "2");
  CHECK(list[2].id == "10");
  CHECK(list[2].prefix == "model.layers.10.self_attn.");
  CHECK(list[2].naming == "LLaMA");
  CHECK_THROWS_WITH(file.load(layer), Catch::Contains("holds 3 layers: 0, 2, 10; choose one"));
}

TEST_CASE("equal ids become prefixes, and a lone unnumbered one among others has a name") {
  const CanonicalLayer layer = rotary();
  Checkpoint twins(R"({"num_attention_heads": 3})");
  for (const char* model : {"draft", "target"})
    twins.linears(fmt::format("{}.layers.0.self_attn.", model), projections, layer);
  CHECK(twins.layers().at(1).id == "target.layers.0.self_attn");
  mha::Request request;
  request.prefix = "draft";
  CHECK(difference(twins.load(layer, request).layer, layer) == "");

  Checkpoint keras;
  for (const char* name : {"mha", "mha_1"})
    for (const char* part : {"query", "key", "value", "out"})
      keras.add(fmt::format("{}/{}/kernel:0", name, part), layer["W_o"].reshaped({12, 3, 4}));
  CHECK(keras.layers().at(0).id == "mha");
  CHECK(keras.layers().at(1).id == "mha_1");
}

TEST_CASE("--config replaces what config.json says, lists and objects too") {
  const CanonicalLayer window =
      rotary().set("window_left", "1").set("rope_scaling", "linear").set("rope_factor", "2");
  Checkpoint file(R"({"num_attention_heads": 5})");
  file.linears("model.layers.1.self_attn.", projections, window);
  mha::Request request;
  request.config = file.path() + "/other.json";
  std::ofstream(request.config) << R"({"num_attention_heads": 3, "sliding_window": 2,
    "layer_types": ["full_attention", "sliding_attention"], "rope_scaling": {"type": "linear", "factor": 2}})";
  CHECK(difference(file.load(window, request).layer, window) == "");
}

TEST_CASE("an option wins over config.json and says so") {
  const CanonicalLayer layer = rotary();
  Checkpoint file(R"({"num_attention_heads": 6})");
  file.linears("model.layers.0.self_attn.", projections, layer);
  const mha::LoadedLayer loaded = file.load(layer, with("num_heads", "3"));
  CHECK(difference(loaded.layer, layer) == "");
  CHECK(notes_say(loaded, "num_heads 3 wins over 6 (config.json)"));
}

TEST_CASE("a binding reads a square matrix the other way") {
  CanonicalLayer layer = rotary();
  Checkpoint file(R"({"num_attention_heads": 3})");
  file.linears("model.layers.0.self_attn.", projections, layer);
  file.write();
  mha::Request request;
  request.sources = {"W_o=" + file.path() +
                     "/model.safetensors:model.layers.0.self_attn.o_proj.weight@IO"};
  const mha::LoadedLayer loaded = file.load(layer, request);
  CHECK(difference(loaded.layer, layer).starts_with("head_result: "));
  layer.tensors["W_o"] = mha::transposed(layer["W_o"]);
  CHECK(difference(loaded.layer, layer) == "");
}

TEST_CASE("a naming that none of the tensors has") {
  const CanonicalLayer layer = rotary();
  Checkpoint file;
  file.linears("model.layers.0.self_attn.", projections, layer);
  mha::Request request;
  request.naming = "gpt2";
  CHECK_THROWS_WITH(file.load(layer, request),
                    "naming gpt2: " + file.path() +
                        " has no layer with the tensors of GPT-2: c_attn.weight c_proj.weight");
}

TEST_CASE("config.json with a word where a number belongs") {
  const CanonicalLayer layer = rotary();
  Checkpoint file(R"({"num_attention_heads": "three"})");
  file.linears("model.layers.0.self_attn.", projections, layer);
  CHECK_THROWS_WITH(file.load(layer), "config.json: num_heads is 'three': a number expected");
  Checkpoint window(R"({"num_attention_heads": 3, "sliding_window": "wide"})");
  window.linears("model.layers.0.self_attn.", projections, layer);
  CHECK_THROWS_WITH(window.load(layer), "config.json: sliding_window is 'wide': a number expected");
}

TEST_CASE("an input beside layers of unknown names is not attended to as it is") {
  const CanonicalLayer layer; // weights of several layers, under names that nobody has
  for (const char* module :
       {"model.layers.0.attention.wqkv", "h.0.multi_head_attention.Wq", "layers.3.dec_attn.qkv_net",
        "encoder.layer.0.attention.self.query_proj", "rwkv.blocks.1.attention.receptance",
        "encoder.blocks.0.1.attention.q_head", "self_attention_4/to_queries"}) {
    INFO(module);
    for (const bool configured : {false, true}) {
      Checkpoint file(configured ? R"({"num_attention_heads": 3})" : "");
      file.linear(module, layer, "q").linear(std::string(module) + "_more", layer, "v");
      CHECK_THROWS_WITH(file.load(layer, with("num_heads", "3")),
                        Catch::Contains("there is no W_q") && // with its bindings, to copy
                            Catch::Contains(":" + std::string(module)));
      mha::Request meant = with("num_heads", "3");
      meant.sources = {"W_q=identity"};
      CHECK_NOTHROW(file.load(layer, meant));
    }
  }
}
