// GGUF's keys as a config.json says the same.

#include <mha/files/text.hpp>
#include <mha/formats/gguf_checkpoint.hpp>
#include <mha/system/named.hpp>
#include <mha/system/words.hpp>

#include <algorithm>
#include <cmath>

namespace mha::io {

namespace {

/// A key behind "llama." and its name in config.json: of the first row whose architectures, where
/// it says some, have this one. "" where that model's config has no such key.
struct KeyName {
  std::string_view key, config, architectures = {};
};
constexpr KeyName key_names[]{
    {"block_count", "n_layer", "gpt2 starcoder bloom"},
    {"block_count", "n_layers", "mpt"},
    {"block_count", "num_hidden_layers"},
    {"embedding_length", "n_embd", "gpt2 starcoder"},
    {"embedding_length", "d_model", "mpt"},
    {"embedding_length", "hidden_size"},
    {"context_length", "n_positions", "gpt2 starcoder"},
    {"context_length", "seq_length", "bloom"},
    {"context_length", "max_seq_len", "mpt"},
    {"context_length", "max_position_embeddings"},
    {"feed_forward_length", "n_inner", "gpt2 starcoder"},
    {"feed_forward_length", "", "bloom falcon mpt"},
    {"feed_forward_length", "intermediate_size"},
    {"attention.head_count", "n_head", "gpt2 starcoder bloom"},
    {"attention.head_count", "n_heads", "mpt"},
    {"attention.head_count", "num_attention_heads"},
    {"attention.head_count_kv", "num_kv_heads", "falcon"},
    {"attention.head_count_kv", "attn_config.kv_n_heads", "mpt"},
    {"attention.head_count_kv", "", "gpt2 starcoder bloom gptneox bert"},
    {"attention.head_count_kv", "num_key_value_heads"},
    {"attention.key_length", "", "deepseek2"},
    {"attention.key_length", "head_dim"},
    {"attention.value_length", "v_head_dim", "deepseek2"},
    {"attention.layer_norm_rms_epsilon", "rms_norm_eps"},
    {"attention.layer_norm_epsilon", "layer_norm_epsilon", "gpt2 starcoder bloom falcon mpt"},
    {"attention.layer_norm_epsilon", "norm_epsilon", "starcoder2"},
    {"attention.layer_norm_epsilon", "", "olmo"},
    {"attention.layer_norm_epsilon", "layer_norm_eps"},
    {"attention.scale", "", "gemma2 gemma3"},
    {"attention.scale", "attention_multiplier"},
    {"attention.clamp_kqv", "attn_config.clip_qkv", "mpt"},
    {"attention.clamp_kqv", "clip_qkv"},
    {"attention.q_lora_rank", "q_lora_rank"},
    {"attention.kv_lora_rank", "kv_lora_rank"},
    {"rope.dimension_count", "qk_rope_head_dim", "deepseek2"},
    {"rope.dimension_count", "", "gpt2 starcoder bloom mpt bert"},
    {"rope.dimension_count", "rotary_dim"},
    {"rope.freq_base", "rotary_emb_base", "gptneox"},
    {"rope.freq_base", "rope_theta"},
    {"rope.freq_base_swa", "rope_local_base_freq"},
    {"rope.dimension_sections", "rope_scaling.mrope_section"},
    {"rope.scaling.type", "rope_scaling.rope_type"},
    {"rope.scaling.factor", "rope_scaling.factor"},
    {"rope.scaling.original_context_length", "rope_scaling.original_max_position_embeddings"},
    {"rope.scaling.yarn_beta_fast", "rope_scaling.beta_fast"},
    {"rope.scaling.yarn_beta_slow", "rope_scaling.beta_slow"},
    {"attn_logit_softcapping", "attn_logit_softcapping"},
    {"final_logit_softcapping", "final_logit_softcapping"},
    {"logit_scale", "logits_scaling", "granite"},
    {"logit_scale", "logit_scale"},
    {"embedding_scale", "embedding_multiplier"},
    {"residual_scale", "residual_multiplier"},
    {"use_parallel_residual", "use_parallel_residual"},
    {"expert_count", "num_local_experts", "llama gpt-oss"},
    {"expert_count", "n_routed_experts", "deepseek2"},
    {"expert_count", "num_experts"},
    {"expert_used_count", "num_experts_per_tok"},
    {"expert_feed_forward_length", "moe_intermediate_size"},
    {"expert_shared_count", "n_shared_experts"},
    {"expert_shared_feed_forward_length", "shared_expert_intermediate_size"},
    {"expert_weights_norm", "norm_topk_prob"},
    {"expert_weights_scale", "routed_scaling_factor"},
    {"leading_dense_block_count", "first_k_dense_replace"},
};
constexpr KeyName tokenizer_names[]{{"tokenizer.ggml.bos_token_id", "bos_token_id"},
                                    {"tokenizer.ggml.eos_token_id", "eos_token_id"},
                                    {"tokenizer.ggml.padding_token_id", "pad_token_id"}};

class GgufConfig {
public:
  GgufConfig(const Gguf& file, const GgufArchitecture& architecture)
      : file_(file), name_(architecture.name), prefix_(name_ + ".") {
    set("model_type", architecture.model_type);
    std::string_view done;
    for (const KeyName& row : key_names) {
      if (row.key == done || (!row.architectures.empty() && !has_word(row.architectures, name_)))
        continue;
      done = row.key;
      if (!row.config.empty()) copy(prefix_ + std::string(row.key), row.config);
    }
    for (const KeyName& row : tokenizer_names) copy(std::string(row.key), row.config);
    take_ends();
    take_window();
    take_scaling();
    take_model();
  }
  std::map<std::string, std::string> config;

private:
  void set(const std::string& name, std::string_view value) { config[name] = value; }
  void set_number(const std::string& name, double value) { set(name, number_text(value)); }
  void set_flag(const std::string& name, bool value) { set(name, value ? "true" : "false"); }
  /// A number; of a list of one a layer, the first.
  std::optional<double> number(const std::string& key) const {
    const GgufValue* value = file_.find(prefix_ + key);
    return value && value->is_array ? value->number() : file_.number(prefix_ + key);
  }
  bool has(std::string_view tensor) const { return find(tensor) != nullptr; }
  const GgufTensor* find(std::string_view tensor) const {
    return find_named(file_.tensors, tensor);
  }

  /// The value of a key; no list of a config is longer than models have layers.
  const GgufValue* find_value(const std::string& key) const {
    constexpr std::uint64_t most = 4096;
    const GgufValue* value = file_.find(key);
    if (value && value->is_array && value->count > most)
      fail("{}: {} has {} elements: one a layer expected, at most {}", shown(file_.name), key,
           value->count, most);
    return value;
  }

  void copy(const std::string& key, std::string_view name) {
    const GgufValue* value = find_value(key);
    if (!value) return;
    std::string text = value->written();
    // One a layer: mostly the same for all.
    if (value->is_array && value->count > 0) {
      const std::string first = text.substr(0, text.find(','));
      std::string same = first;
      for (std::uint64_t i = 1; i < value->count && same.size() < text.size(); ++i)
        same += "," + first;
      if (same == text && !name.ends_with("mrope_section")) text = first;
    }
    set(std::string(name), text);
  }

  /// The vocabulary, and whether there is a head of its own.
  void take_ends() {
    set_flag("tie_word_embeddings", !has("output.weight"));
    if (const GgufTensor* tokens = find("token_embd.weight"); tokens && tokens->shape.size() == 2)
      set_number("vocab_size", static_cast<double>(tokens->shape[0]));
    if (const GgufTensor* types = find("token_types.weight"); types && types->shape.size() == 2)
      set_number("type_vocab_size", static_cast<double>(types->shape[0]));
  }

  void take_window() {
    // llama.cpp passes over Qwen's window, which is not in use.
    if (name_.starts_with("qwen")) return;
    copy(prefix_ + "attention.sliding_window", "sliding_window");
    // Files of Mistral call themselves LLaMA, whose models have no window.
    if (name_ == "llama" && find_value(prefix_ + "attention.sliding_window"))
      set("model_type", "mistral");
    const GgufValue* pattern = find_value(prefix_ + "attention.sliding_window_pattern");
    if (!pattern) return;
    if (!pattern->is_array) {
      set("sliding_window_pattern", pattern->written());
      return;
    }
    std::string types;
    for (std::uint64_t i = 0; i < pattern->count; ++i) {
      const bool slides = pattern->boolean(i).value_or(pattern->integer(i).value_or(0) != 0);
      types +=
          fmt::format("{}{}", i > 0 ? "," : "", slides ? "sliding_attention" : "full_attention");
    }
    set("layer_types", types);
  }

  void take_scaling() {
    const auto type = file_.text(prefix_ + "rope.scaling.type");
    if (type && *type == "none")
      std::erase_if(config, [](const auto& entry) {
        return entry.first.starts_with("rope_scaling.") && !entry.first.ends_with("mrope_section");
      });
    if (const auto old = number("rope.scale_linear"); old && *old != 1 && !type) {
      set("rope_scaling.rope_type", "linear");
      set_number("rope_scaling.factor", *old);
    }
    const std::optional<double> factor = number("rope.scaling.factor"),
                                attention = number("rope.scaling.attn_factor");
    // yarn's factor of cos and sin is multiplied by this one.
    if (type && *type == "yarn" && attention && *attention != 1)
      set_number("rope_scaling.attention_factor",
                 *attention * (0.1 * std::log(std::max(factor.value_or(1), 1.0)) + 1));
    if (const auto log = number("rope.scaling.yarn_log_multiplier"))
      for (const char* key : {"rope_scaling.mscale", "rope_scaling.mscale_all_dim"})
        set_number(key, *log * 10);
    const GgufTensor *lengths = find("rope_factors_long.weight"),
                     *shorts = find("rope_factors_short.weight");
    if (lengths && shorts) {
      set("rope_scaling.rope_type", "longrope");
      set("rope_scaling.long_factor", list_of(*lengths));
      set("rope_scaling.short_factor", list_of(*shorts));
      if (attention) set_number("rope_scaling.attention_factor", *attention);
    } else if (const GgufTensor* divisors = find("rope_freqs.weight")) {
      // LLaMA 3's scaling as the numbers that it comes to: every frequency is divided by its own,
      // however long the text is.
      set("rope_scaling.rope_type", "longrope");
      set("rope_scaling.long_factor", list_of(*divisors));
      set("rope_scaling.short_factor", list_of(*divisors));
      set_number("rope_scaling.attention_factor", 1.0);
      if (const auto trained = number("context_length"))
        set_number("rope_scaling.original_max_position_embeddings", *trained);
    }
  }

  /// "1,1.25,…": the numbers of a small tensor.
  std::string list_of(const GgufTensor& tensor) const {
    constexpr std::size_t most = 4096;
    if (tensor.dtype != DType::f32 || tensor.blocks || tensor.shape.size() != 1 ||
        tensor.shape[0] > most)
      fail("{}: {} is {} of {}: at most {} numbers of F32 expected", shown(file_.name),
           shown(tensor.name), to_string(tensor.shape), tensor.type, most);
    const Tensor numbers = tensor.read();
    std::string list;
    for (const float factor : numbers.as<float>())
      list += fmt::format("{}{}", list.empty() ? "" : ",", number_text(factor));
    return list;
  }

  /// What one architecture alone has, or says otherwise.
  void take_model() {
    const double heads = number("attention.head_count").value_or(0);
    const double key_heads = number("attention.head_count_kv").value_or(heads);
    if (name_ == "llama" && number("expert_count").value_or(0) > 0) set("model_type", "mixtral");
    if (name_ == "gemma2" || name_ == "gemma3") {
      // The scale is not in older files. The largest models alone divide by another width.
      const double width = number("embedding_length").value_or(0),
                   layers = number("block_count").value_or(0);
      const bool largest = layers == (name_ == "gemma2" ? 46 : 62) && heads > 0;
      const std::optional<double> scale = number("attention.scale"),
                                  key_length = number("attention.key_length");
      if (scale && *scale > 0)
        set_number("query_pre_attn_scalar", 1 / (*scale * *scale));
      else if (largest)
        set_number("query_pre_attn_scalar", width / heads);
      else if (key_length)
        set_number("query_pre_attn_scalar", *key_length);
    }
    if (name_ == "falcon") {
      set_flag("new_decoder_architecture",
               has("blk.0.attn_norm_2.weight") || (key_heads > 1 && key_heads < heads));
      set_flag("multi_query", key_heads == 1);
    }
    if (name_ == "starcoder") set_flag("multi_query", key_heads == 1);
    if (name_ == "mpt") {
      const double slope = number("attention.max_alibi_bias").value_or(0);
      set_flag("attn_config.alibi", slope > 0);
      if (slope > 0) set_number("attn_config.alibi_bias_max", slope);
    }
    if (name_ == "deepseek2")
      if (const auto rotated = number("rope.dimension_count"),
          length = number("attention.key_length");
          rotated && length)
        set_number("qk_nope_head_dim", *length - *rotated);
    if (name_ == "qwen3moe" && !file_.find(prefix_ + "expert_weights_norm"))
      set_flag("norm_topk_prob", true);
    if (name_ == "command-r") set_flag("use_qk_norm", has("blk.0.attn_q_norm.weight"));
  }

  const Gguf& file_;
  std::string name_, prefix_;
};

} // namespace

std::map<std::string, std::string> config_of_gguf(const Gguf& file,
                                                  const GgufArchitecture& architecture) {
  return std::move(GgufConfig(file, architecture).config);
}

} // namespace mha::io
