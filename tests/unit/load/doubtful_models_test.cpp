// Whole models that are nearly another one: what is refused, what is reported, and that a warning's
// numbers are those that Transformers computes, without what is passed over.

#include "support/files.hpp"
#include "support/model_outcome.hpp"
#include "support/run.hpp"

#include <catch2/catch.hpp>

#include <fmt/ranges.h>

#include <functional>

using namespace mha;
using namespace mha::test;

namespace {

using Edit = std::function<void(io::Contents&)>;

Edit says(const std::string& key, const std::string& value) {
  return [=](io::Contents& model) { model.config[key] = value; };
}
Edit says_nothing_of(const std::string& key) {
  return [=](io::Contents& model) { model.config.erase(key); };
}
Edit with(const std::string& name, const Shape& shape) {
  return [=](io::Contents& model) { model.tensors.push_back(entry_of(name, DType::f16, shape)); };
}
Edit resized(const std::string& name, const Shape& shape) {
  return [=](io::Contents& model) {
    for (io::Entry& entry : model.tensors)
      if (entry.name == name) entry = entry_of(name, entry.dtype, shape);
  };
}
Edit typed(const std::string& name, DType dtype) {
  return [=](io::Contents& model) {
    for (io::Entry& entry : model.tensors)
      if (entry.name == name) entry = entry_of(name, dtype, entry.shape);
  };
}
Edit without(const std::string& ending) {
  return [=](io::Contents& model) {
    std::erase_if(model.tensors,
                  [&](const io::Entry& entry) { return entry.name.ends_with(ending); });
  };
}
Edit both(const Edit& first, const Edit& second) {
  return [=](io::Contents& model) { first(model), second(model); };
}
Edit renamed(const std::string& from, const std::string& to) {
  return [=](io::Contents& model) {
    for (io::Entry& entry : model.tensors)
      if (entry.name.starts_with(from)) entry.name = to + entry.name.substr(from.size());
  };
}
/// The tensors whose names begin so, once more under other names.
Edit doubled(const std::string& from, const std::string& to) {
  return [=](io::Contents& model) {
    for (std::size_t i = 0, count = model.tensors.size(); i < count; ++i) {
      io::Entry copy = model.tensors[i];
      if (!copy.name.starts_with(from)) continue;
      copy.name = to + copy.name.substr(from.size());
      model.tensors.push_back(std::move(copy));
    }
  };
}
Outcome outcome_of(const std::string& model, const Edit& edit) {
  io::Contents contents = copy_of(io::open(in_source("data/" + model)));
  contents.name = model; // no tokenizer beside it
  edit(contents);
  return compute_text(contents);
}

const std::string llama = "bard-llama", gpt2 = "bard-gpt2", bert = "bard-bert";
const Shape d{96};

} // namespace

TEST_CASE("models that lack or contradict something are refused", "[model]") {
  struct Case {
    std::string model;
    Edit edit;
    std::string words;
  };
  const Case cases[]{
      {gpt2, without("attn.c_attn.bias"), "attn.c_attn.bias is missing, which models of this kind"},
      {gpt2, without("mlp.c_fc.bias"), "mlp.c_fc.bias is missing"},
      {gpt2, without("ln_2.bias"), "ln_2.bias is missing"},
      {bert, without("query.bias"), "query.bias is missing"},
      {bert, without("intermediate.dense.bias"), "intermediate.dense.bias is missing"},
      {llama, both(without("lm_head.weight"), with("lm_head.weight", {1025, 96})),
       "lm_head gives 1025 logits, but the embedding has 1024 tokens"},
      {llama,
       both(without("layers.3.self_attn.q_proj.weight"), says_nothing_of("num_hidden_layers")),
       "is of layer 3, of which a projection is missing"},
      {llama,
       says("layer_types", "full_attention,full_attention,full_attention,full_attention,"
                           "full_attention"),
       "layer_types go beyond the 4 layers"},
      {bert, says("position_embedding_type", "rotary"),
       "position_embedding_type is 'rotary', which is not computed here"},
      {gpt2, typed("transformer.h.1.attn.c_attn.bias", DType::i8),
       "c_attn.bias is int8: quantised weights are not read here"},
      {llama, typed("model.norm.weight", DType::i32), "norm.weight is int32"},
      {llama, doubled("model.layers.3.", "layers.3."), "layer 3 is there twice, as"},
      {llama, doubled("model.", "draft."), "layer 0 is there twice, as"},
      {llama, says("num_hidden_layers", "[4]"), "num_hidden_layers is '[4]': a number expected"},
      {llama, both(says("model_type", "mistral"), says("sliding_window", "-1")),
       "sliding_window is -1: a whole number expected"},
      {llama, says("tie_word_embeddings", "True"), "tie_word_embeddings is 'True': true or false"},
      {llama, says("attention_bias", "yes"), "attention_bias is 'yes'"},
      {llama, says("rms_norm_eps", "NaN"), "rms_norm_eps is 'NaN'"},
      {llama, says("attention_bias", "true"), "q_proj.bias is missing, though config.json has"},
      {llama, says("mlp_bias", "true"), "_proj.bias is missing"},
      {gpt2, says("num_attention_heads", "3"), "n_head is 6, and num_attention_heads is 3"},
      {gpt2, says("n_positions", "64"), "n_positions 64, but the tensors have 128 positions"},
      {bert, says("type_vocab_size", "1"), "type_vocab_size 1, but the tensors have 2"},
      {llama, says("rope_scaling.rope_type", "linear"), "is linear and has no factor"},
      {llama, says("rope_scaling.rope_type", "dynamic"), "is dynamic and has no factor"},
      {llama, says("rope_scaling.rope_type", "yarn"), "is yarn and has no factor"},
      {llama, says("rope_scaling.rope_type", "llama3"), "is llama3 and has no low_freq_factor"},
      {llama, says("rope_scaling.rope_type", "longrope"), "is longrope and has no short_factor"},
      {llama, both(says("rope_scaling.factor", "4"), says("rope_parameters.factor", "2")),
       "rope_scaling and rope_parameters, which differ in factor"},
      {llama,
       both(says("rope_scaling.rope_type", "default"), says("rope_parameters.rope_theta", "9")),
       "rope_scaling and rope_parameters, which differ in rope_theta"},
      {llama,
       both(says_nothing_of("max_position_embeddings"),
            both(says("rope_scaling.rope_type", "yarn"), says("rope_scaling.factor", "4"))),
       "is yarn and has no original_max_position_embeddings"},
      {llama, resized("model.layers.1.self_attn.o_proj.weight", {1, 96}),
       "the output of a layer's attention is 1 wide, the stream that it is added to 96"},
      {llama, resized("model.layers.1.self_attn.o_proj.weight", {192, 96}), "is 192 wide"},
      {llama, typed("model.layers.1.self_attn.q_proj.weight", DType::i8),
       "q_proj.weight is int8: quantised weights are not read here"},
      {llama, says("partial_rotary_factor", "1.5"), "1.5 for the rotated part of a head: 0 to 1"},
      {llama,
       both(says("model_type", "mistral"),
            both(says("sliding_window", "4"),
                 says("layer_types", "chunked_attention,full_attention,full_attention,"
                                     "full_attention"))),
       "'chunked_attention' for layer 0, which is not computed here"},
  };
  for (const Case& one : cases) {
    const Outcome outcome = outcome_of(one.model, one.edit);
    INFO(one.words << "\n" << outcome.refusal);
    CHECK(outcome.refusal.find(one.words) != std::string::npos);
  }
  // With a window and without one that is in use.
  for (const char* window : {"true", "false"})
    for (const char* kind : {"linear_attention", "local", "global", "mamba"}) {
      const Edit typed = both(says("model_type", "mistral"),
                              says("layer_types", fmt::format("{0},{0},{0},{0}", kind)));
      const Outcome outcome = outcome_of(
          llama,
          both(typed, both(says("sliding_window", "4"), says("use_sliding_window", window))));
      CHECK(outcome.refusal.find(fmt::format("'{}' for layer 0", kind)) != std::string::npos);
    }
  for (const char* word : {"scales", "qzeros", "g_idx", "input_scale", "SCB", "absmax",
                           "weight_scale", "weight_scale_inv"}) {
    const Outcome outcome =
        outcome_of(llama, with(fmt::format("model.layers.1.mlp.down_proj.{}", word), d));
    INFO(word << "\n" << outcome.refusal);
    CHECK(outcome.refusal.find("of quantised weights, which are not read here") !=
          std::string::npos);
  }
}

TEST_CASE("what a model has beyond its family is told, and passed over as in Transformers",
          "[model]") {
  struct Case {
    std::string model;
    Edit edit;
    std::string words;
  };
  const Case cases[]{
      {bert, with("bert.embeddings.position_ids", {1, 128}), "position_ids has"},
      {bert, with("cls.predictions.decoder.bias", {1024}), "predictions.decoder.bias has"},
      {llama, says("architectures", "GPT2LMHeadModel"),
       "model_type 'llama' and architectures GPT2LMHeadModel: the first is read"},
      {gpt2, says("architectures", "OlmoForCausalLM"), "model_type 'gpt2' and architectures Olmo"},
      {llama, with("model.layers.0.input_layernorm.bias", d), "input_layernorm.bias"},
      {llama, with("model.norm.bias", d), "norm.bias"},
      {llama, with("model.layers.2.mlp.norm.weight", d), "mlp.norm.weight"},
      {llama, with("model.layers.2.layer_scale.gamma", d), "layer_scale.gamma"},
      {llama, with("model.layers.0.pre_feedforward_layernorm.weight", d),
       "pre_feedforward_layernorm.weight"},
      {llama, with("model.embed_layernorm.weight", d), "embed_layernorm.weight"},
      {llama, with("model.embed_positions.weight", {128, 96}), "embed_positions.weight"},
      {llama, with("model.layers.1.mlp.experts.0.up_proj.weight", {256, 96}), "experts.0"},
      {llama, with("model.layers.1.mlp.down_proj.ia3_l", d), "ia3_l"},
      {llama, with("model.layers.1.mlp.down_proj.weight_g", d), "weight_g"},
      {llama, with("model.layers.1.mlp.down_proj.lora_A.weight", {4, 256}), "lora_A"},
      {llama, with("model.layers.1.mlp.down_proj.bias", d), "down_proj.bias"},
      {llama, with("model.layers.1.self_attn.q_proj.bias", d), "q_proj.bias"},
      {llama, with("model.layers.1.self_attn.rotary_emb.inv_freq", {8}), "inv_freq"},
      {llama, with("lm_head.bias", {1024}), "lm_head.bias"},
      {llama, with("sinks", {6}), "sinks"},
      {llama, with("kv_lengths", {1}), "kv_lengths"},
      {llama, with("q_norm.weight", {16}), "q_norm.weight"},
      {llama, with("bias", {9, 9}), ": bias"},
      {gpt2, with("transformer.h.0.ln_3.weight", d), "ln_3.weight"},
      {bert, with("bert.encoder.layer.0.crossattention.gate", d), "crossattention.gate"},
      {llama, says("sliding_window", "3"), "sliding_window 3"},
      {llama, says("attention_multiplier", "0.5"), "attention_multiplier 0.5"},
      {llama, says("logits_scaling", "8"), "logits_scaling 8"},
      {llama, says("residual_multiplier", "0.2"), "residual_multiplier"},
      {llama, says("attn_logit_softcapping", "30"), "attn_logit_softcapping"},
      {llama, says("alibi", "true"), "alibi true"},
      {llama, says("is_neox_style", "false"), "is_neox_style"},
      {llama, says("clip_qkv", "4"), "clip_qkv"},
      {llama, says("quantization_config.quant_method", "gptq"), "quantization_config (gptq)"},
      {gpt2, says("rope_theta", "10000"), "rope_theta"},
      {llama, says("layer_types", "sliding_attention,full_attention"), "layer_types sliding"},
      {gpt2, says("layer_types", "linear_attention"), "layer_types linear"},
      {llama, both(says("rope_scaling.rope_type", "default"), says("rope_scaling.type", "yarn")),
       "has rope_type default and type yarn: the first counts"},
      {llama, says("no_rope_layers", "0,1,1,1"), "no_rope_layers 0,1,1,1"},
      {llama, with("model.layers.1.self_attn.q_norm.weight", {16}), "q_norm.weight: skipped"},
      {llama, with("model.layers.1.self_attn.k_norm.weight", d), "k_norm.weight: skipped"},
      {llama, says("rotary_pct", "0.5"), "rotary_pct 0.5"},
      {llama, says("rope_pct", "0.5"), "rope_pct 0.5"},
      {llama, says("rotary_dim", "4"), "rotary_dim 4"},
      {llama, says("rotary_emb_base", "500"), "rotary_emb_base 500"},
      {llama, says("_sliding_window_pattern", "2"), "_sliding_window_pattern 2"},
      {gpt2, says("positional_embedding_type", "alibi"), "positional_embedding_type alibi"},
      {llama,
       both(says("model_type", "mistral"),
            both(says("sliding_window", "3"), says("use_sliding_window", "false"))),
       "use_sliding_window false"},
  };
  std::map<std::string, Outcome> plain;
  for (const std::string& model : {llama, gpt2, bert})
    plain[model] = outcome_of(model, [](io::Contents&) {});
  for (const auto& [model, outcome] : plain) {
    INFO(model << outcome.refusal);
    CHECK(outcome.refusal.empty());
    CHECK(outcome.notes.empty());
  }
  for (const Case& one : cases) {
    const Outcome outcome = outcome_of(one.model, one.edit);
    INFO(one.words << "\n" << outcome.refusal << fmt::format("{}", fmt::join(outcome.notes, "\n")));
    CHECK(outcome.refusal.empty());
    CHECK(outcome.says(one.words));
    CHECK(outcome.bits == plain[one.model].bits);
  }
}

TEST_CASE("a setting that stands in and beside text_config with two values is told", "[model]") {
  const Outcome two = outcome_of(llama, says("text_config.rms_norm_eps", "0.5"));
  CHECK(two.refusal.empty());
  CHECK(two.says("rms_norm_eps is 0.5 in text_config and 1e-05 beside it: the first is read"));
  CHECK(outcome_of(llama, says("text_config.rms_norm_eps", "1e-05")).notes.empty());
}

TEST_CASE("a setting that every model has and that is null is told", "[model]") {
  for (const auto& [model, key] :
       {std::pair(llama, "rms_norm_eps"), std::pair(llama, "hidden_act"),
        std::pair(bert, "layer_norm_eps"), std::pair(gpt2, "activation_function")}) {
    const Outcome lost = outcome_of(model, says(key, "null"));
    INFO(model << " " << key << " " << lost.refusal);
    CHECK((!lost.refusal.empty() || lost.says(fmt::format("{} is null", key))));
  }
}

TEST_CASE("what every file of a kind has, and what no version reads, is not told", "[model]") {
  const auto silent = [](const std::string& model, const Edit& edit) {
    const Outcome outcome = outcome_of(model, edit);
    INFO(model << outcome.refusal << fmt::format("{}", fmt::join(outcome.notes, "\n")));
    CHECK(outcome.refusal.empty());
    CHECK(outcome.notes.empty());
  };
  silent(gpt2, says("n_ctx", "4"));
  silent(llama, says("layer_types", "full_attention,full_attention"));
  // The table of positions beside relative ones.
  const Shape table{2 * 128 - 1, 96 / 6};
  silent(bert, [&](io::Contents& model) {
    model.config["position_embedding_type"] = "relative_key";
    for (int layer = 0; layer < 4; ++layer)
      with(fmt::format("bert.encoder.layer.{}.attention.self.distance_embedding.weight", layer),
           table)(model);
  });
}

TEST_CASE("names that only look like other parts are the model's", "[model]") {
  const Outcome plain = outcome_of(llama, [](io::Contents&) {});
  for (const std::string prefix : {"television.", "supervision.model.", "audiobook.", ""}) {
    const Outcome outcome = outcome_of(llama, renamed("model.", prefix));
    INFO(prefix << "\n" << outcome.refusal);
    CHECK(outcome.notes.empty());
    CHECK(outcome.bits == plain.bits);
  }
  // Without a prefix, a module's bias is no position bias, though it is as wide as the text is
  // long.
  const Outcome biased =
      outcome_of(llama, both(renamed("model.", ""), with("layers.0.mlp.down_proj.bias", {9})));
  INFO(biased.refusal);
  CHECK(biased.says("layers.0.mlp.down_proj.bias"));
  CHECK(biased.bits == plain.bits);
  const Outcome stray = outcome_of(llama, both(renamed("model.", ""), with("layers.0.sinks", {6})));
  CHECK(stray.says("layers.0.sinks"));
  CHECK(stray.bits == plain.bits);
}

TEST_CASE("config.json: null, 0 and what Python writes", "[model]") {
  const Outcome none = outcome_of(llama, says("rope_theta", "10000"));
  // Nothing is rotated: another model, without a doubt.
  const Outcome still = outcome_of(llama, says("partial_rotary_factor", "0"));
  CHECK(still.refusal.empty());
  CHECK(still.bits != none.bits);
  const Outcome half = outcome_of(llama, says("partial_rotary_factor", "0.5"));
  CHECK(still.bits != half.bits);

  const Folder folder;
  const auto open = [&](const std::string& config) -> std::string {
    folder.write("config.json", config);
    try {
      const io::Contents contents = io::open(folder.path());
      const auto at = contents.config.find("x");
      return at == contents.config.end() ? "-" : at->second;
    } catch (const Error& error) {
      return error.what();
    }
  };
  const std::string weights = in_source("data/bard-llama/model.safetensors");
  REQUIRE(shell("cp " + weights + " " + folder.path()).code == 0);
  CHECK(open(R"({"x": null})") == "null");
  CHECK(open(R"({"x": NaN, "y": [0.0, Infinity], "z": "NaN \" NaN"})") == "NaN");
  CHECK(open(R"({"x": -Infinity})") == "-Infinity");
  CHECK(open(R"({"x": Nan})").find("a value expected") != std::string::npos);
  CHECK(open(std::string("\xff\xfe{\0}\0", 6)).find("text in UTF-16") != std::string::npos);
  const std::string pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n";
  CHECK(open(pointer).find("a Git LFS pointer, not the file itself") != std::string::npos);
  folder.write("model.safetensors", pointer);
  CHECK(open("{}").find("a Git LFS pointer") != std::string::npos);
}

TEST_CASE("an index names files of its folder alone", "[model]") {
  const Folder folder;
  for (const std::string name : {R"(a\u0000.safetensors)", "../a.safetensors", ""}) {
    folder.write("model.safetensors.index.json", R"({"weight_map": {"t": ")" + name + R"("}})");
    CHECK_THROWS_WITH(io::open(folder.path()), Catch::Contains("must be in a file of this folder"));
  }
}
