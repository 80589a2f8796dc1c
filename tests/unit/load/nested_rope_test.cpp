#include "support/checkpoint.hpp"

#include <catch2/catch.hpp>
#include <fmt/format.h>

// config.json as Transformers 5 writes it: rope_parameters of one object for each kind of layers,
// and keys that mean something else than in files of Transformers 4.

namespace {

const std::vector<std::string> projections{"q_proj", "k_proj", "v_proj", "o_proj"};
const LayerSizes grouped{.T = 5, .d_model = 10, .H = 6, .H_kv = 2, .d = 4};

CanonicalLayer rotary() {
  CanonicalLayer layer(grouped, "");
  layer.set("causal", "true").set("rope", "half");
  return layer;
}

const std::string by_type = R"("rope_parameters": {
  "full_attention": {"rope_type": "default", "rope_theta": 777},
  "sliding_attention": {"rope_type": "linear", "factor": 4, "rope_theta": 99}})";

} // namespace

TEST_CASE("rope_parameters by kind of layers: base and scaling are those of layer_types' kind") {
  CanonicalLayer full = rotary().set("rope_base", "777"), sliding = rotary().set("rope_base", "99");
  sliding.set("rope_scaling", "linear").set("rope_factor", "4");
  for (const auto& [number, layer] :
       {std::pair<std::string, const CanonicalLayer*>("0", &full), {"1", &sliding}}) {
    Checkpoint file(R"({"model_type": "smollm3", "num_attention_heads": 6, "no_rope_layers": [1, 1],
      "layer_types": ["full_attention", "sliding_attention"], )" +
                    by_type + "}");
    file.linears("model.layers." + number + ".self_attn.", projections, *layer);
    const mha::LoadedLayer loaded = file.load(*layer, number);
    INFO(number);
    CHECK(difference(loaded.layer, *layer) == "");
    CHECK_FALSE(notes_say(loaded, "not read here: rope"));
  }
  Checkpoint file(R"({"model_type": "smollm3", "num_attention_heads": 6, )" + by_type + "}");
  file.linears("model.layers.0.self_attn.", projections, full);
  CHECK_THROWS_WITH(file.load(full), Catch::Contains("no layer_types give the kind"));
}

TEST_CASE("one object of rope_parameters alone is that of every layer where no layer_types are") {
  const CanonicalLayer layer = rotary().set("rope_base", "777");
  const auto loaded = [&](const std::string& others) {
    Checkpoint file(R"({"model_type": "mistral", "num_attention_heads": 6, )" + others +
                    R"("rope_parameters": {"full_attention": {"rope_theta": 777}}})");
    file.linears("model.layers.0.self_attn.", projections, layer);
    return file.load(layer);
  };
  CHECK(difference(loaded(R"("sliding_window": null, )").layer, layer) == "");
  const std::string none = R"("sliding_window": 0, )"; // Transformers would hide every key
  CHECK(difference(loaded(none + R"("layer_types": ["full_attention"], )").layer, layer) == "");
  for (const char* types : {"", R"("layer_types": ["sliding_attention"], )"})
    CHECK_THROWS_WITH(loaded(none + types),
                      Catch::Contains("sliding_window is 0: a whole number from 1 on expected"));
}

TEST_CASE("a key inside rope_parameters that nothing reads is told") {
  const CanonicalLayer layer = rotary().set("rope_base", "777");
  Checkpoint file(
      R"({"model_type": "llama", "num_attention_heads": 6, "layer_types": ["full_attention"],
    "rope_parameters": {"full_attention": {"rope_theta": 777, "swirl": 3}}})");
  file.linears("model.layers.0.self_attn.", projections, layer);
  const mha::LoadedLayer loaded = file.load(layer);
  CHECK(difference(loaded.layer, layer) == "");
  CHECK(notes_say(loaded, "not read here: rope_parameters.full_attention.swirl 3"));
}

TEST_CASE("code with a base of its own reads no rope_theta and no rope_scaling: they are told") {
  const CanonicalLayer gptj =
      CanonicalLayer({}, "").set("causal", "true").set("rope", "interleaved").set("rope_dims", "2");
  const CanonicalLayer esm = CanonicalLayer().set("rope", "half");
  struct Said {
    const char *keys, *told; ///< "": nothing
  };
  for (const auto& [keys, told] :
       {Said{R"("rope_theta": 10000)", ""},
        {R"("rope_theta": 500000)", "not read here: rope_theta 500000"},
        {R"("rope_scaling": null)", ""},
        {R"("rope_scaling": {"rope_type": "default"})", ""},
        {R"("rope_parameters": {"rope_type": "default", "rope_theta": 10000.0})", ""},
        {R"("rope_parameters": {"rope_type": "default", "rope_theta": 777})",
         "not read here: rope_parameters.rope_theta 777"},
        {R"("rope_scaling": {"type": "linear", "factor": 4})",
         "not read here: rope_scaling.factor 4, rope_scaling.type linear"},
        {R"("rope_scaling": {"rope_type": "swirl"})",
         "not read here: rope_scaling.rope_type swirl"},
        {R"("partial_rotary_factor": 0.5)", "not read here: partial_rotary_factor 0.5"}}) {
    INFO(keys);
    Checkpoint file(
        fmt::format(R"({{"model_type": "gptj", "n_head": 3, "rotary_dim": 2, {}}})", keys));
    file.linears("transformer.h.0.attn.", {"q_proj", "k_proj", "v_proj", "out_proj"}, gptj);
    Checkpoint protein(fmt::format(R"({{"model_type": "esm", "num_attention_heads": 3,
                                        "position_embedding_type": "rotary", {}}})",
                                   keys));
    const std::string block = "esm.encoder.layer.0.attention.";
    protein.linears(block, {"self.query", "self.key", "self.value", "output.dense"}, esm);
    protein.add(block + "LayerNorm.weight", esm["b_o"]).add(block + "LayerNorm.bias", esm["b_o"]);
    for (const auto& [loaded, layer] :
         {std::pair{file.load(gptj), &gptj}, {protein.load(esm), &esm}}) {
      CHECK(difference(loaded.layer, *layer) == "");
      CHECK(notes_say(loaded, *told == '\0' ? "not read here" : told) == (*told != '\0'));
    }
  }
}

TEST_CASE("a model's own code is told, in its class's place") {
  const CanonicalLayer layer = rotary();
  const auto says = [&](const std::string& map, const char* type) {
    Checkpoint file(fmt::format(R"({{"num_attention_heads": 6, {} "auto_map": {}}})", type, map));
    file.linears("model.layers.0.self_attn.", projections, layer);
    const mha::LoadedLayer loaded = file.load(layer);
    CHECK(difference(loaded.layer, layer) == "");
    return notes_say(loaded, "auto_map names the model's own code (modeling_x.XForCausalLM)");
  };
  for (const char* type : {"\"model_type\": \"llama\",", "\"model_type\": \"mistral\","}) {
    CHECK(
        says(R"({"AutoConfig": "c.C", "AutoModelForCausalLM": "modeling_x.XForCausalLM"})", type));
    CHECK_FALSE(says(R"({"AutoTokenizer": ["tokenization_x.X", null]})", type));
    CHECK_FALSE(says("null", type));
    CHECK_FALSE(says("{}", type));
  }
}

TEST_CASE("EmbeddingGemma sees both sides, of a window half on each") {
  CanonicalLayer full = rotary().add("q_norm.weight", {4}).add("k_norm.weight", {4});
  full.set("qk_norm_one_plus", "true").set("scale", "0.0625").set("rope_base", "1000000");
  full.set("causal", "false");
  CanonicalLayer sliding = full;
  sliding.set("rope_base", "10000").set("window_left", "1").set("window_right", "1");
  for (const auto& [number, layer] :
       {std::pair<std::string, const CanonicalLayer*>("0", &sliding), {"5", &full}}) {
    Checkpoint file(R"({"model_type": "gemma3_text", "num_attention_heads": 6, "sliding_window": 3,
                        "use_bidirectional_attention": true})");
    const std::string prefix = "model.layers." + number + ".self_attn.";
    file.linears(prefix, projections, *layer);
    for (const char* name : {"q_norm.weight", "k_norm.weight"})
      file.add(prefix + name, (*layer)[name]);
    const mha::LoadedLayer loaded = file.load(*layer, number);
    INFO(number);
    CHECK(difference(loaded.layer, *layer) == "");
    CHECK_FALSE(notes_say(loaded, "not read here"));
  }
}

TEST_CASE("Gemma 1's hidden_act is never passed over without a word") {
  const CanonicalLayer layer = rotary();
  const auto load = [&](const std::string& keys) {
    Checkpoint file(R"({"model_type": "gemma", "num_attention_heads": 6, )" + keys + "}");
    file.linears("model.layers.0.self_attn.", projections, layer);
    return file.load(layer);
  };
  const std::string tanh = "read as gelu_pytorch_tanh",
                    five = R"("transformers_version": "5.17.0", )",
                    four = R"("transformers_version": "4.41.2", )";
  CHECK(notes_say(load(R"("hidden_act": "relu")"), "hidden_act relu: " + tanh));
  CHECK(notes_say(load(four + R"("hidden_act": "relu")"), "hidden_act relu: " + tanh));
  CHECK(notes_say(load(four + R"("hidden_act": "gelu")"), "hidden_act gelu: " + tanh));
  CHECK_FALSE(notes_say(load(four + R"("hidden_act": "gelu_pytorch_tanh")"), "hidden_act"));
  CHECK_FALSE(notes_say(load(five + R"("hidden_act": "relu")"), "hidden_act"));
  CHECK(notes_say(load(five + R"("hidden_act": "gelu")"), "were trained with gelu_pytorch_tanh"));
  CHECK(notes_say(load(five + R"("hidden_act": "relu", "hidden_activation": "silu")"),
                  "hidden_activation silu and hidden_act relu: the second is read"));
}

TEST_CASE("Falcon: keys that it does not read are not told of") {
  const CanonicalLayer layer =
      CanonicalLayer({.T = 5, .d_model = 12, .H = 3, .H_kv = 1, .d = 4}, "").set("causal", "true");
  for (const bool alibi : {true, false}) {
    CanonicalLayer want = layer;
    alibi ? want.set("alibi", "falcon") : want.set("rope", "half");
    Checkpoint file(
        fmt::format(R"({{"model_type": "falcon", "num_attention_heads": 3, "multi_query": true,
      "new_decoder_architecture": false, "num_kv_heads": 2, "alibi": {},
      "rope_parameters": {{"rope_theta": 10000.0, "rope_type": "default"}}}})",
                    alibi));
    const std::string prefix = "transformer.h.0.self_attention.";
    file.fused(prefix + "query_key_value", want, one_after_the_other("qkv", want.sizes))
        .linear(prefix + "dense", want, "o");
    const mha::LoadedLayer loaded = file.load(want);
    CHECK(difference(loaded.layer, want) == "");
    CHECK_FALSE(notes_say(loaded, "not read here"));
    CHECK(notes_say(loaded, "adds it twice") == alibi);
  }
}
