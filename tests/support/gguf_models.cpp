#include "support/gguf_models.hpp"

#include <random>
#include <stdexcept>

namespace mha::test {

namespace {

constexpr GgufTraits gguf_trait_rows[]{
    {.name = "llama", .rope = "neighbours"},
    {.name = "mistral3", .rope = "neighbours"},
    {.name = "smollm3", .rope = "neighbours"},
    {.name = "granite", .rope = "neighbours"},
    {.name = "olmo", .rope = "neighbours", .norm = "bare"},
    {.name = "baichuan", .rope = "neighbours", .mlp = "", .key_heads = 4},
    {.name = "xverse", .rope = "neighbours", .key_heads = 4},
    {.name = "minicpm", .rope = "neighbours"},
    {.name = "internlm2", .rope = "neighbours"},
    {.name = "arcee", .rope = "neighbours", .mlp = "relu2"},
    {.name = "ernie4_5", .rope = "neighbours"},
    {.name = "exaone"},
    {.name = "exaone4", .block = "inside", .qk_norm = "head"},
    {.name = "eurobert", .more = "headless"},
    {.name = "seed_oss", .biases = "qkv"},
    {.name = "nemotron", .norm = "layer", .mlp = "relu2"},
    {.name = "jais2", .norm = "layer", .mlp = "relu2", .biases = "qkv o mlp"},
    {.name = "glm4", .rope = "neighbours", .block = "sandwich", .mlp = "fused", .biases = "qkv"},
    {.name = "qwen2", .biases = "qkv"},
    {.name = "qwen2moe", .mlp = "", .biases = "qkv"},
    {.name = "qwen2vl", .mlp = "", .biases = "qkv"},
    {.name = "qwen3", .qk_norm = "head"},
    {.name = "qwen3moe", .mlp = "", .qk_norm = "head"},
    {.name = "olmo2", .block = "inside", .qk_norm = "whole"},
    {.name = "stablelm", .norm = "layer"},
    {.name = "command-r", .rope = "neighbours", .norm = "weight", .block = "one"},
    {.name = "cohere2", .rope = "neighbours", .norm = "weight", .block = "one"},
    {.name = "starcoder2", .norm = "layer", .mlp = "tanh", .biases = "qkv o mlp"},
    {.name = "gpt-oss", .mlp = "", .biases = "qkv o", .more = "sinks"},
    {.name = "deepseek2", .rope = "neighbours", .mlp = "", .key_heads = 4, .more = "latent"},
    {.name = "gemma", .mlp = "gelu"},
    {.name = "gemma2", .block = "sandwich", .mlp = "gelu"},
    {.name = "gemma3", .block = "sandwich", .mlp = "gelu", .qk_norm = "head"},
    {.name = "phi3", .mlp = "fused", .fused = true},
    {.name = "phi2", .norm = "layer", .block = "one", .mlp = "tanh", .biases = "qkv o mlp head"},
    {.name = "gpt2",
     .rope = "",
     .norm = "layer",
     .mlp = "tanh",
     .biases = "qkv o mlp",
     .fused = true,
     .key_heads = 4,
     .more = "positions"},
    {.name = "starcoder",
     .rope = "",
     .norm = "layer",
     .mlp = "tanh",
     .biases = "qkv o mlp",
     .fused = true,
     .key_heads = 1,
     .more = "positions"},
    {.name = "gptneox",
     .norm = "layer",
     .block = "two",
     .mlp = "erf",
     .biases = "qkv o mlp",
     .fused = true,
     .key_heads = 4},
    {.name = "bloom",
     .rope = "",
     .norm = "layer",
     .mlp = "tanh",
     .biases = "qkv o mlp",
     .fused = true,
     .key_heads = 4,
     .more = "embedding_norm"},
    {.name = "falcon",
     .norm = "layer",
     .block = "one",
     .mlp = "erf",
     .fused = true,
     .key_heads = 1},
    {.name = "mpt", .rope = "", .norm = "weight", .mlp = "erf", .fused = true, .key_heads = 4},
    {.name = "bert",
     .rope = "",
     .norm = "layer",
     .block = "post",
     .mlp = "erf",
     .biases = "qkv o mlp",
     .key_heads = 4,
     .more = "positions types embedding_norm headless"},
};

bool has_gguf_word(std::string_view list, std::string_view word) {
  for (std::size_t at = list.find(word); at != list.npos; at = list.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if ((at == 0 || list[at - 1] == ' ') && (end == list.size() || list[end] == ' ')) return true;
  }
  return false;
}

/// Tensors of random numbers that float32 holds.
class GgufModelMaker {
public:
  explicit GgufModelMaker(const GgufTraits& traits) : traits_(traits) {
    using S = GgufSizes;
    add_keys();
    matrix("token_embd", S::words, S::width, false);
    if (traits.has("positions")) matrix("position_embd", S::context, S::width, false);
    if (traits.has("types")) matrix("token_types", 2, S::width, false);
    if (traits.has("embedding_norm")) norm("token_embd_norm");
    for (std::size_t layer = 0; layer < S::layers; ++layer) add_block(layer);
    if (traits.block == "post") return;
    if (traits.norm != "bare") norm("output_norm");
    if (!tied() && !traits.has("headless"))
      matrix("output", S::words, S::width, traits.has("head"));
  }
  GgufFile file;

private:
  bool is(std::string_view names) const { return has_gguf_word(names, traits_.name); }
  bool tied() const {
    return is("gemma gemma2 gemma3 command-r cohere2 ernie4_5 gpt2 bloom mpt starcoder2 smollm3 "
              "starcoder");
  }

  void set(const std::string& key, GgufKeyValue value) {
    file.keys[std::string(traits_.name) + "." + key] = std::move(value);
  }

  void add_keys() {
    using S = GgufSizes;
    file.keys["general.architecture"] = std::string(traits_.name);
    const auto number = [](std::size_t n) { return static_cast<std::uint32_t>(n); };
    set("block_count", number(S::layers)), set("embedding_length", number(S::width));
    set("context_length", number(S::context)), set("feed_forward_length", number(S::wide));
    set("attention.head_count", number(S::heads));
    set("attention.head_count_kv", number(traits_.key_heads));
    set(traits_.norm == "rms" ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon",
        1e-5F);
    if (!traits_.rope.empty() && traits_.more != "latent") {
      set("rope.freq_base", 700.F);
      set("rope.dimension_count", number(is("stablelm phi2 gptneox nemotron glm4") ? 4 : S::head));
    }
    if (is("gemma2 gemma3 gpt-oss cohere2 exaone4")) set("attention.sliding_window", number(3));
    // So that one of two layers sees everything.
    if (is("gemma3 cohere2 exaone4")) set("attention.sliding_window_pattern", number(2));
    if (is("gemma gemma2 gemma3 gpt-oss")) {
      set("attention.key_length", number(S::head));
      set("attention.value_length", number(S::head));
    }
    if (is("gemma2")) set("attn_logit_softcapping", 5.F), set("final_logit_softcapping", 4.F);
    if (is("granite")) {
      set("logit_scale", 2.F), set("residual_scale", 0.5F);
      set("embedding_scale", 3.F), set("attention.scale", 0.25F);
    }
    if (is("baichuan")) set("block_count", number(32)); // of which the file has two
    if (is("command-r cohere2")) set("logit_scale", 0.5F);
    if (is("gptneox")) set("use_parallel_residual", true);
    if (is("mpt")) set("attention.max_alibi_bias", 8.F);
    if (is("bert eurobert")) set("attention.causal", false);
    if (is("qwen2vl")) set("rope.dimension_sections", std::vector<std::uint32_t>{1, 1, 1, 0});
    if (traits_.more != "latent") return;
    set("attention.q_lora_rank", number(10)), set("attention.kv_lora_rank", number(8));
    set("attention.key_length", number(7)), set("attention.value_length", number(5));
    set("rope.dimension_count", number(4)), set("rope.freq_base", 700.F);
  }

  reference::Array& random(const std::string& name, reference::Shape shape, double middle,
                           double spread) {
    reference::Array& array = file.tensors[name] = reference::Array(std::move(shape));
    std::uniform_real_distribution<float> between(static_cast<float>(middle - spread),
                                                  static_cast<float>(middle + spread));
    for (double& number : array.values) number = between(random_);
    return array;
  }
  void matrix(const std::string& name, std::size_t rows, std::size_t columns, bool biased) {
    random(name + ".weight", {rows, columns}, 0, 0.6);
    if (biased) random(name + ".bias", {rows}, 0, 0.5);
  }
  void norm(const std::string& name, std::size_t width = GgufSizes::width) {
    random(name + ".weight", {width}, 1, 0.5);
    if (traits_.norm == "layer") random(name + ".bias", {width}, 0, 0.5);
  }

  void add_block(std::size_t layer) {
    using S = GgufSizes;
    const std::string blk = "blk." + std::to_string(layer) + ".";
    const bool qkv = traits_.has("qkv");
    const std::size_t keys = traits_.key_heads * S::head, queries = S::heads * S::head;
    if (traits_.more == "latent")
      add_latent(blk);
    else if (traits_.fused)
      matrix(blk + "attn_qkv", queries + 2 * keys, S::width, qkv);
    else
      for (const auto& [name, rows] :
           {std::pair("attn_q", queries), {"attn_k", keys}, {"attn_v", keys}})
        matrix(blk + name, rows, S::width, qkv);
    if (traits_.more != "latent") matrix(blk + "attn_output", S::width, queries, traits_.has("o"));
    if (traits_.has("sinks")) random(blk + "attn_sinks.weight", {S::heads}, 0, 1);
    if (!traits_.qk_norm.empty()) {
      const bool whole = traits_.qk_norm == "whole";
      random(blk + "attn_q_norm.weight", {whole ? queries : S::head}, 1, 0.5);
      random(blk + "attn_k_norm.weight", {whole ? keys : S::head}, 1, 0.5);
    }
    add_norms(blk);
    if (traits_.mlp.empty()) return;
    const bool gated = traits_.mlp == "silu" || traits_.mlp == "gelu", mlp = traits_.has("mlp");
    if (gated) matrix(blk + "ffn_gate", S::wide, S::width, false);
    matrix(blk + "ffn_up", traits_.mlp == "fused" ? 2 * S::wide : S::wide, S::width, mlp);
    matrix(blk + "ffn_down", S::width, S::wide, mlp);
  }

  void add_norms(const std::string& blk) {
    if (traits_.norm == "bare") return;
    if (traits_.block == "post")
      return norm(blk + "attn_output_norm"), norm(blk + "layer_output_norm");
    if (traits_.block != "inside") norm(blk + "attn_norm");
    if (traits_.block == "pre" || traits_.block == "two" || traits_.block == "sandwich")
      norm(blk + (is("seed_oss") ? "post_attention_norm" : "ffn_norm"));
    if (traits_.block == "sandwich" || traits_.block == "inside")
      norm(blk + "post_attention_norm"), norm(blk + "post_ffw_norm");
  }

  /// 7 numbers of a head's key, of which 4 are shared and rotate; 5 of its value.
  void add_latent(const std::string& blk) {
    using S = GgufSizes;
    matrix(blk + "attn_q_a", 10, S::width, false), norm(blk + "attn_q_a_norm", 10);
    matrix(blk + "attn_q_b", S::heads * 7, 10, false);
    matrix(blk + "attn_kv_a_mqa", 8 + 4, S::width, false), norm(blk + "attn_kv_a_norm", 8);
    matrix(blk + "attn_kv_b", S::heads * (3 + 5), 8, false);
    matrix(blk + "attn_output", S::width, S::heads * 5, false);
  }

  const GgufTraits& traits_;
  std::mt19937 random_{29};
};

} // namespace

bool GgufTraits::has(std::string_view word) const {
  return has_gguf_word(biases, word) || has_gguf_word(more, word);
}

std::span<const GgufTraits> gguf_traits() {
  return gguf_trait_rows;
}

const GgufTraits& gguf_traits_of(std::string_view name) {
  for (const GgufTraits& one : gguf_trait_rows)
    if (one.name == name) return one;
  throw std::invalid_argument(std::string(name));
}

GgufFile gguf_model(const GgufTraits& traits) {
  return GgufModelMaker(traits).file;
}

} // namespace mha::test
