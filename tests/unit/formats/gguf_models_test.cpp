// GGUF: tensors that few files of an architecture have, and what is reported of keys.

#include "unit/formats/gguf_runs.hpp"

#include <catch2/catch.hpp>

#include <nlohmann/json.hpp>

#include <cmath>
#include <filesystem>

using namespace mha;
using namespace mha::test;

namespace {

/// A model whose file somebody changed.
struct Changed {
  std::string_view architecture;
  std::vector<std::pair<std::string, GgufKeyValue>> keys = {};
  std::vector<std::string> less = {}; ///< tensors that go, by the beginning of a block's own name
  std::vector<std::pair<std::string, reference::Shape>> more = {};

  GgufFile file() const {
    GgufFile file = gguf_model(gguf_traits_of(architecture));
    for (const auto& [key, value] : keys) file.keys[std::string(architecture) + "." + key] = value;
    for (const std::string& name : less)
      std::erase_if(file.tensors, [&](const auto& tensor) {
        return tensor.first.find("." + name) != std::string::npos;
      });
    double number = 0;
    for (const auto& [name, shape] : more) {
      reference::Array& array = file.tensors[name] = reference::Array(shape);
      for (double& one : array.values) one = static_cast<float>(1.5 + std::sin(number += 1));
    }
    return file;
  }
};

/// What is reported of it by the name FILE.
std::string without_path(std::string text) {
  for (std::size_t at = 0; (at = text.find("/tmp")) != std::string::npos;)
    text.replace(at, text.find("model.gguf", at) + 10 - at, "FILE");
  return text;
}

const GgufKeyValue four = 4U, linear = std::string("linear");

} // namespace

TEST_CASE("GGUF: what few files of an architecture have is computed as llama.cpp does, silently",
          "[gguf][keys]") {
  const GgufRuns runs;
  const Changed all[]{
      {"llama", {}, {}, {{"rope_freqs.weight", {3}}}},
      {"llama",
       {{"rope.scaling.factor", 2.F}, {"rope.scaling.attn_factor", 1.25F}},
       {},
       {{"rope_freqs.weight", {3}}}},
      {"llama", {{"attention.sliding_window", 3U}}},
      {"mistral3", {}, {}, {{"rope_freqs.weight", {3}}}},
      {"mistral3", {{"attention.sliding_window", 3U}}},
      {"mistral3",
       {{"rope.scaling.type", std::string("yarn")},
        {"rope.scaling.factor", 4.F},
        {"rope.scaling.original_context_length", 64U},
        {"rope.scaling.yarn_log_multiplier", 0.5F},
        {"rope.scaling.attn_factor", 1.25F},
        {"attention.temperature_scale", 0.5F}}},
      {"deepseek2",
       {{"rope.scaling.type", std::string("yarn")},
        {"rope.scaling.factor", 4.F},
        {"rope.scaling.yarn_log_multiplier", 0.07F}}},
      {"mpt", {{"attention.max_alibi_bias", 0.F}}, {}, {{"position_embd.weight", {32, 24}}}},
      {"mpt", {}, {}, {{"position_embd.weight", {32, 24}}}},
      {"mpt", {{"attention.clamp_kqv", 0.5F}}},
      {"stablelm", {}, {"ffn_norm"}},
      {"falcon",
       {{"attention.head_count_kv", 2U}},
       {},
       {{"blk.0.attn_qkv.weight", {48, 24}}, {"blk.1.attn_qkv.weight", {48, 24}}}},
      {"granite", {{"rope.scaling.finetuned", false}}},
      {"granite", {{"attention.scale", 0.F}, {"embedding_scale", 0.F}, {"residual_scale", 0.F}}},
      {"minicpm", {{"embedding_scale", 2.F}, {"residual_scale", 0.5F}, {"logit_scale", 3.F}}},
      {"command-r", {{"logit_scale", 0.F}}},
      {"gemma3", {{"attention.sliding_window", 0U}}},
      {"gemma3", {{"rope.scaling.type", linear}, {"rope.scaling.factor", 8.F}}},
      {"olmo2",
       {{"attention.sliding_window", 2U},
        {"attention.sliding_window_pattern", 2U},
        {"rope.scaling.factor", 4.F},
        {"rope.scaling.attn_factor", 1.25F}}},
      {"bert", {{"attention.causal", true}}},
      {"arcee", {}, {}, {{"rope_freqs.weight", {3}}}},
      {"exaone", {{"rope.dimension_count", four}}},
      {"exaone4", {{"attention.sliding_window", 0U}}},
      {"exaone4", {{"attention.sliding_window_pattern", std::vector<bool>{false, true}}}},
      {"cohere2", {{"attention.sliding_window_pattern", 1U}}},
      {"cohere2", {{"rope.dimension_count", four}}},
      {"nemotron", {{"rope.scaling.type", linear}, {"rope.scaling.factor", 4.F}}},
      {"glm4", {{"rope.freq_base", 90.F}}},
      {"ernie4_5", {}, {}, {{"output.weight", {11, 24}}}},
  };
  for (const Changed& one : all) {
    const GgufFile file = one.file();
    const GgufTraits& traits = gguf_traits_of(one.architecture);
    const GgufOutcome outcome = runs.run(traits, file);
    INFO(one.architecture << " " << (one.keys.empty() ? "" : one.keys[0].first));
    CHECK(outcome.error == "");
    CHECK(outcome.said == "");
    CHECK(same_numbers(outcome.numbers, GgufRuns::reference_of(traits, file)));
    CHECK(outcome.numbers != runs.run(traits, gguf_model(traits)).numbers);
  }
}

TEST_CASE("GGUF: EXAONE 4 of 64 layers has a window by itself, and smaller ones have none",
          "[gguf][keys]") {
  const GgufRuns runs;
  const GgufTraits& traits = gguf_traits_of("exaone4");
  GgufFile file = gguf_model(traits);
  for (const char* key : {"sliding_window", "sliding_window_pattern"})
    file.keys.erase(std::string("exaone4.attention.") + key);
  const std::vector<double> every_layer_rotates = runs.run(traits, file, true).numbers;
  CHECK(same_numbers(every_layer_rotates, GgufRuns::reference_of(traits, file, true)));
  // Of four layers the last does not rotate: here the second of two.
  file.keys["exaone4.block_count"] = 64U;
  file.keys["exaone4.attention.sliding_window_pattern"] = 2U;
  const GgufOutcome largest = runs.run(traits, file, true);
  CHECK(largest.error == "");
  CHECK(largest.said == "");
  CHECK(same_numbers(largest.numbers, GgufRuns::reference_of(traits, file, true)));
  CHECK(largest.numbers != every_layer_rotates);
}

TEST_CASE("GGUF: latent attention's keys and values in two tensors are the matrix's bits",
          "[gguf][keys]") {
  const GgufRuns runs;
  const GgufTraits& traits = gguf_traits_of("deepseek2");
  const GgufFile whole = gguf_model(traits);
  GgufFile parts = whole;
  const std::size_t heads = 4, in = 8, key = 3, value = 5;
  for (const std::string blk : {"blk.0.", "blk.1."}) {
    const reference::Array rows = parts.tensors.extract(blk + "attn_kv_b.weight").mapped();
    reference::Array& k = parts.tensors[blk + "attn_k_b.weight"] =
        reference::Array({heads, in, key});
    reference::Array& v = parts.tensors[blk + "attn_v_b.weight"] =
        reference::Array({heads, value, in});
    for (std::size_t h = 0; h < heads; ++h)
      for (std::size_t i = 0; i < in; ++i) {
        for (std::size_t j = 0; j < key; ++j) k(h, i, j) = rows(h * (key + value) + j, i);
        for (std::size_t j = 0; j < value; ++j) v(h, j, i) = rows(h * (key + value) + key + j, i);
      }
  }
  // As one head of the compressed keys and values, beside the widths of the others.
  for (const auto& [name, number] : {std::pair("head_count_kv", 1U),
                                     {"key_length", 12U},
                                     {"value_length", 8U},
                                     {"key_length_mla", 7U},
                                     {"value_length_mla", 5U}})
    parts.keys[std::string("deepseek2.attention.") + name] = number;
  const GgufOutcome outcome = runs.run(traits, parts);
  CHECK(outcome.error == "");
  CHECK(outcome.said == "");
  CHECK(outcome.numbers == runs.run(traits, whole).numbers);
}

TEST_CASE("GGUF: a tensor more is computed with as llama.cpp does, told or refused",
          "[gguf][keys]") {
  const GgufRuns runs;
  using Size = GgufSizes;
  std::size_t told = 0, changed = 0;
  for (const GgufTraits& traits : gguf_traits()) {
    const std::size_t q = Size::heads * Size::head, k = traits.key_heads * Size::head;
    const GgufFile base = gguf_model(traits);
    const GgufOutcome before = runs.run(traits, base), lone = runs.run(traits, base, true);
    const std::pair<std::string, reference::Shape> all[]{
        {"attn_q.bias", {q}},
        {"attn_k.bias", {k}},
        {"attn_v.bias", {k}},
        {"attn_qkv.bias", {q + 2 * k}},
        {"attn_output.bias", {Size::width}},
        {"attn_norm.bias", {Size::width}},
        {"attn_norm_2.weight", {Size::width}},
        {"attn_q_norm.weight", {Size::head}},
        {"attn_k_norm.weight", {k}},
        {"attn_q_norm.bias", {Size::head}},
        {"attn_sinks.weight", {Size::heads}},
        {"attn_sub_norm.weight", {q}},
        {"attn_gate.weight", {q, Size::width}},
        {"attn_rel_b.weight", {Size::heads, 4}},
        {"attn_output_norm.weight", {Size::width}},
        {"attn_q.scale", {1}},
        {"ffn_up.scale", {1}},
        {"ffn_gate.bias", {Size::wide}},
        {"ffn_up.bias", {Size::wide}},
        {"ffn_down.bias", {Size::width}},
        {"ffn_norm.bias", {Size::width}},
        {"ffn_sub_norm.weight", {Size::wide}},
        {"post_attention_norm.weight", {Size::width}},
        {"post_ffw_norm.weight", {Size::width}},
        {"layer_output_norm.weight", {Size::width}},
        {"layer_output_scale.weight", {1}},
        {"cross_attn_q.weight", {q, Size::width}},
    };
    for (const auto& [name, shape] : all) {
      GgufFile file = base;
      for (const char* blk : {"blk.0.", "blk.1."}) {
        reference::Array& array = file.tensors[blk + name] = reference::Array(shape);
        for (std::size_t i = 0; i < array.values.size(); ++i)
          array.values[i] = static_cast<float>(1.5 + std::sin(static_cast<double>(i)));
      }
      for (const bool alone : {false, true}) {
        // A layer of attention alone has that and the norm before it, if any.
        const bool behind = (name == "attn_norm.bias" && traits.block == "inside") ||
                            name == "attn_output_norm.weight";
        if ((alone || !traits.is_whole()) && (!name.starts_with("attn") || behind)) continue;
        const GgufOutcome after = runs.run(traits, file, alone);
        INFO(traits.name << (alone ? " alone: " : ": ") << name);
        if (!(after.error + after.said).empty()) {
          ++told;
        } else {
          CHECK(after.numbers != (alone ? lone : before).numbers);
          // The reference knows neither Falcon's second norm nor layer norms of queries and keys.
          const bool known =
              name != "attn_norm_2.weight" && traits.name != "command-r" && traits.name != "mpt";
          if (known)
            CHECK(same_numbers(after.numbers, GgufRuns::reference_of(traits, file, alone)));
          ++changed;
        }
      }
    }
  }
  CHECK(told > 900);
  CHECK(changed > 100);
}

TEST_CASE("GGUF: what is said of keys", "[gguf][keys]") {
  const GgufRuns runs;
  const auto told = [&](const Changed& one, bool alone = false) {
    const GgufOutcome outcome = runs.run(gguf_traits_of(one.architecture), one.file(), alone);
    return without_path(outcome.error + outcome.said);
  };
  const std::string describe = "; describe the model by naming FILE.json (docs/describing.md)";
  CHECK(told({"llama", {{"attention.value_scale", 0.5F}, {"new_key", 3U}}}) ==
        "FILE: not read here: llama.attention.value_scale 0.5, llama.new_key 3. If the model "
        "computes with it, its numbers differ\n");
  CHECK(told({"gpt2", {{"attention.causal", false}}}) ==
        "FILE: gpt2.attention.causal is false, which is not computed here for this architecture: "
        "true expected" +
            describe);
  CHECK(told({"gpt2", {{"attention.causal", false}}}, true) ==
        "FILE: gpt2.attention.causal is false, which is not computed here for this architecture: "
        "true expected" +
            describe);
  CHECK(told({"eurobert", {{"attention.causal", true}}}) ==
        "FILE: eurobert.attention.causal is true, which is not computed here for this "
        "architecture: false expected" +
            describe);
  CHECK(told({"glm4", {{"rope.dimension_sections", std::vector<std::uint32_t>{1, 1, 0, 0}}}}) ==
        "FILE: glm4.rope.dimension_sections is 1,1,0,0, which is not computed here for this "
        "architecture: 0 of each expected" +
            describe);
  CHECK(told({"llama", {}, {}, {{"blk.1.ffn_up.scale", {1}}}}) ==
        "FILE: blk.1.ffn_up.scale is a factor beside a weight, which is not computed here" +
            describe);
  CHECK(told({"phi3", {}, {}, {{"rope_factors_long.weight", {3}}}}) ==
        "FILE: rope_factors_long.weight has no counterpart, which is not computed here: one for "
        "long and "
        "one for short texts expected" +
            describe);
  CHECK(told({"exaone4", {{"nextn_predict_layers", 1U}}}) ==
        "FILE: exaone4.nextn_predict_layers is 1, which is not computed here: 0 expected" +
            describe);
  CHECK(told({"cohere2", {{"attention.sliding_window", 0U}}}) ==
        "FILE: cohere2.attention.sliding_window is 0, which is not computed here: a window "
        "expected" +
            describe);
  CHECK(told({"llama", {{"feed_forward_length", std::vector<std::uint32_t>{20, 18}}}}) ==
        "FILE: llama.feed_forward_length is 20,18, which is not computed here: the same in every "
        "layer expected" +
            describe);
  CHECK(told({"qwen2", {{"attention.key_length", 8U}}}) ==
        "FILE: qwen2.attention.head_count is 4, but blk.0.attn_q.weight is (24, 24): 32 rows "
        "expected of qwen2.attention.head_count 4, qwen2.attention.head_count_kv 2, "
        "qwen2.attention.key_length 8, qwen2.embedding_length 24" +
            describe);
  CHECK(told({"mistral3",
              {{"attention.temperature_scale", 0.5F},
               {"rope.scaling.original_context_length", four}}}) == "");
}

TEST_CASE("Ministral 3 in a folder: queries from a length on are multiplied",
          "[gguf][keys]") {
  const Folder folder;
  const std::string model = in_source("data/bard-llama/");
  std::ifstream file(model + "config.json");
  nlohmann::json config = nlohmann::json::parse(file);
  config.erase("architectures");
  const auto write = [&](const char* type, double beta, int length) {
    config["model_type"] = type;
    if (std::string(type) == "ministral3")
      config["rope_parameters"] = {{"rope_type", "default"},
                                   {"rope_theta", 10000.0},
                                   {"llama_4_scaling_beta", beta},
                                   {"original_max_position_embeddings", length}};
    folder.write("config.json", config.dump());
  };
  std::filesystem::create_symlink(model + "model.safetensors", folder.path("model.safetensors"));
  const auto logits = [&](const std::vector<int>& ids) {
    const Model opened(folder.path());
    const Run run = opened.run(opened.tokens(ids), {.keep = {"logits"}});
    CHECK(run.notes() == std::vector<Note>());
    return run.tensor("logits");
  };
  const std::vector<int> five{5, 6, 7, 8, 9}, six{5, 6, 7, 8, 9, 10};
  write("llama", 0, 0);
  const Tensor plain = logits(five);
  write("ministral3", 0.1, 5);
  const Tensor same = logits(five);
  CHECK(std::equal(plain.raw(), plain.raw() + plain.bytes(), same.raw()));

  // From position 5 on: 1 + 0.1 ln 2.
  const Model opened(folder.path());
  const Run run = opened.run(opened.tokens(six), {.keep = {"layers.1.scores", "layers.1.scaled"}});
  const Tensor scores = run.tensor("layers.1.scores"), scaled = run.tensor("layers.1.scaled");
  const double scale = value_at(scaled, 0) / value_at(scores, 0);
  for (std::size_t i = 0; i < scores.count(); ++i)
    CHECK(value_at(scaled, i) ==
          Approx(value_at(scores, i) * scale * (i / 6 % 6 < 5 ? 1 : 1 + 0.1 * std::log(2.0)))
              .epsilon(1e-5)
              .margin(1e-6));
}
