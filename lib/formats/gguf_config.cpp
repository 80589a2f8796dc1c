// Translates the keys of a GGUF file to the entries of a config.json.

#include <mha/files/text.hpp>
#include <mha/formats/gguf_settings.hpp>
#include <mha/formats/gguf_tables.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace mha::io {

namespace {

/// Score functions of experts, as files number them.
constexpr double softmax = 1, sigmoid = 2, softmax_of_chosen = 3;

class GgufConfig {
public:
  GgufConfig(const Gguf& file, const GgufArchitecture& architecture)
      : settings_(file, architecture.name) {
    settings_.set("model_type", architecture.model_type);
    for (const auto& [key, value] : file.keys) take_key(key);
    for (const GgufKey& row : gguf_vocabulary_keys())
      if (const GgufValue* const found = file.find(row.key))
        settings_.set(std::string(row.config), found->written());
    take_ends();
    require_gguf_widths(settings_);
    doubt_missing();
    take_gguf_windows(settings_);
    take_gguf_rotary(settings_);
    take_gguf_kinds_of_layers(settings_);
    take_model();
    refuse_beyond_limits();
    refuse_tensors();
    for (const auto& [key, value] : file.keys)
      if (!find_gguf_key(own(key), settings_.architecture()) && !settings_.was_read(own(key)))
        settings_.keep(key, value);
  }
  GgufSettings settings_;

private:
  bool is(std::string_view architectures) const { return settings_.is(architectures); }
  std::optional<double> number(std::string_view key) const { return settings_.number(key); }

  /// The name in config.json of a key of this architecture.
  std::string name_of(std::string_view key) const {
    return std::string(find_gguf_key(key, settings_.architecture())->config);
  }

  /// A key after "llama."; "" of another one.
  std::string_view own(std::string_view whole_key) const {
    const std::string prefix = settings_.whole("");
    return whole_key.starts_with(prefix) ? whole_key.substr(prefix.size()) : std::string_view();
  }

  void take_key(std::string_view whole_key) {
    const std::string_view key = own(whole_key);
    const GgufKey* const row = find_gguf_key(key, settings_.architecture());
    if (!row) return;
    // A factor of 0 means that there is none.
    const bool factor = key == "attention.scale" || key == "attention.clamp_kqv" ||
                        key == "logit_scale" || key == "embedding_scale" ||
                        key == "residual_scale" || key == "expert_weights_scale";
    if (factor && settings_.number_but_0(key) == std::nullopt) return;
    if (row->config.empty()) {
      settings_.value(key); // throws Error for a list that is too long
      return;
    }
    settings_.copy(key, row->config);
  }

  /// The vocabulary size, and whether the output head is tied to the embedding.
  void take_ends() {
    // EuroBERT's files are for embeddings and never have an output head.
    if (!is("eurobert")) settings_.set_flag("tie_word_embeddings", !settings_.has("output.weight"));
    const auto rows = [&](const char* name) -> std::optional<double> {
      const GgufTensor* const tensor = settings_.tensor(name);
      if (!tensor || tensor->shape.size() != 2) return std::nullopt;
      return static_cast<double>(tensor->shape[0]);
    };
    if (const auto tokens = rows("token_embd.weight")) settings_.set_number("vocab_size", *tokens);
    if (const auto types = rows("token_types.weight"))
      settings_.set_number("type_vocab_size", *types);
  }

  /// Reports missing keys that llama.cpp requires.
  void doubt_missing() {
    for (const char* key : {"block_count", "embedding_length", "attention.head_count"})
      if (!settings_.value(key))
        settings_.doubt(key, "is missing: it is inferred from the tensors, or the usual value of "
                             "models of this kind is used");
    const char* const norm =
        is(gguf_rms_normed) ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon";
    const std::optional<double> eps = number(norm);
    if (!eps) settings_.doubt(norm, "is missing: the usual value of models of this kind is used");
  }

  /// Refuses values of keys that these architectures cannot be computed with here.
  void refuse_beyond_limits() {
    const auto only = [&](std::string_view key, bool fits, std::string_view expected) {
      if (!fits)
        settings_.refuse(key, fmt::format("which is not computed here{} expected", expected));
    };
    constexpr std::string_view of_model = " for this architecture: ";
    if (is("baichuan")) // the larger one has ALiBi
      only("block_count", number("block_count") == 32.0,
           fmt::format("{}32, of the model of 7 billion,", of_model));
    if (is("starcoder"))
      only("attention.head_count_kv", number("attention.head_count_kv") == 1.0,
           fmt::format("{}1", of_model));
    if (is("olmo"))
      if (const auto eps = number("attention.layer_norm_epsilon"))
        only("attention.layer_norm_epsilon", static_cast<float>(*eps) == 1e-5F, ": 1e-05");
    if (is("mpt"))
      if (const auto alibi = number("attention.max_alibi_bias"))
        only("attention.max_alibi_bias", *alibi == 8.0 || *alibi == 0.0, ": 8");
  }

  bool is_factor_of_gemma4(std::string_view name) const {
    return is("gemma4") &&
           (name.ends_with(".ffn_gate_inp.scale") || name.ends_with(".ffn_down_exps.scale"));
  }

  /// Refuses scales of whole weights, which are separate tensors.
  void refuse_tensors() {
    for (const GgufTensor& tensor : settings_.file().tensors)
      if ((tensor.name.ends_with(".scale") && !is_factor_of_gemma4(tensor.name)) ||
          tensor.name.ends_with(".input_scale"))
        settings_.refuse_tensor(tensor.name,
                                "is a factor beside a weight, which is not computed here");
  }

  /// Settings of single architectures.
  void take_model() {
    const double heads = number("attention.head_count").value_or(0);
    const double key_heads = number("attention.head_count_kv").value_or(heads);
    if (is("llama") && number("expert_count").value_or(0) > 0)
      settings_.set("model_type", "mixtral");
    take_causality();
    take_scales(heads);
    if (is("falcon")) {
      settings_.set_flag("new_decoder_architecture", settings_.has("blk.0.attn_norm_2.weight") ||
                                                         (key_heads > 1 && key_heads < heads));
      settings_.set_flag("multi_query", key_heads == 1);
    }
    if (is("starcoder")) settings_.set_flag("multi_query", key_heads == 1);
    if (is("mpt"))
      settings_.set_flag("attn_config.alibi", number("attention.max_alibi_bias").value_or(0) > 0);
    if (is("deepseek2")) take_latent_widths();
    take_experts();
    take_further_layers();
    if (is("afmoe")) settings_.set("mup_enabled", "true");
    if (is("mimo2") && !settings_.number_but_0("attention.value_scale"))
      settings_.set("attention_value_scale", "1");
    if (is("command-r"))
      settings_.set_flag("use_qk_norm", settings_.has("blk.0.attn_q_norm.weight"));
    if (is("command-r cohere2")) {
      // Without the key, or with 0, llama.cpp does not scale the logits.
      if (!settings_.number_but_0("logit_scale")) settings_.set("logit_scale", "1");
    }
  }

  /// The layers after the last, which predict further tokens, are counted as blocks.
  void take_further_layers() {
    const double further = settings_.further_blocks(), blocks = number("block_count").value_or(0);
    if (further <= 0 || further >= blocks) return;
    settings_.set_number("num_hidden_layers", blocks - further);
    settings_.set_number("num_nextn_predict_layers", further);
  }

  /// What llama.cpp computes of experts where the file has no key.
  void take_experts() {
    const bool latent = is("deepseek2");
    const bool has_router =
        std::ranges::any_of(settings_.file().tensors, [](const GgufTensor& tensor) {
          return tensor.name.find("ffn_gate_inp") != std::string::npos;
        });
    if (number("expert_count").value_or(0) > 0 && !has_router) {
      settings_.refuse("expert_count", "though no layer has experts: 0 expected");
      for (const char* key : {"num_experts", "num_local_experts"}) settings_.set(key, "0");
    }
    if (!latent && number("expert_count").value_or(0) <= 0) return;
    const double scores = expert_scores(), groups = number("expert_group_count").value_or(0);
    if (latent) {
      settings_.set("model_type", scores == sigmoid ? "deepseek_v3" : "deepseek_v2");
      settings_.set("scoring_func", scores == sigmoid ? "sigmoid" : "softmax");
      // The second version's groups are chosen by their best expert's score.
      const char* const method = groups > 1 ? "group_limited_greedy" : "greedy";
      if (scores != sigmoid) settings_.set("topk_method", method);
    }
    if (!settings_.value("expert_weights_norm") && !is("llama4 laguna bailingmoe2"))
      settings_.set_flag(name_of("expert_weights_norm"), is("qwen3moe"));
    if (is("mimo2")) settings_.set_flag("norm_topk_prob", true); // llama.cpp does not read the key
    if (is("laguna bailingmoe2") && !settings_.flag("expert_weights_norm").value_or(false))
      settings_.refuse("expert_weights_norm",
                       settings_.value("expert_weights_norm")
                           ? "which is not computed here: true expected"
                           : "is missing, which llama.cpp takes for false: true expected");
    const bool has_usual_factor = is("step35") || is(gguf_grouped_experts);
    if (has_usual_factor && !settings_.number_but_0("expert_weights_scale"))
      settings_.set(name_of("expert_weights_scale"), "1");
    if (!is(gguf_grouped_experts)) {
      if (groups > 1)
        settings_.refuse("expert_group_count",
                         "which is not computed here for this architecture: 1 expected");
      return;
    }
    if (groups > 1) return;
    settings_.set("n_group", "1");
    settings_.set("topk_group", "1");
  }

  /// The number of the experts' score function. Refuses one that these models are not computed with
  /// here.
  double expert_scores() {
    const double given = number("expert_gating_func").value_or(0);
    double usual = is(gguf_sigmoid_experts) ? sigmoid : is("gpt-oss") ? softmax_of_chosen : softmax;
    if (is("deepseek2")) {
      // The first files of GLM 4.7 Flash lack the key.
      const double layers = number("block_count").value_or(0);
      const GgufTensor* const tokens = settings_.tensor("token_embd.weight");
      constexpr std::size_t of_glm = 154880;
      if ((layers == 47 || layers == 48) && tokens && tokens->shape.size() == 2 &&
          tokens->shape[0] == of_glm)
        usual = sigmoid;
      if (given == softmax || given == sigmoid) return given;
    }
    if (given > 0 && given != usual)
      settings_.refuse("expert_gating_func",
                       fmt::format("which is not computed here for this architecture: {} expected",
                                   is("deepseek2") ? "1 or 2" : fmt::format("{}", usual)));
    return usual;
  }

  void take_causality() {
    const std::optional<bool> causal = settings_.flag("attention.causal");
    if (is("bert eurobert") && !causal)
      settings_.doubt("attention.causal", fmt::format("is missing: false is used, as in {}",
                                                      is("bert") ? "BERT" : "EuroBERT"));
    if (is("bert"))
      settings_.set_flag("is_decoder", causal.value_or(false));
    else if (is("eurobert") && causal == true)
      settings_.refuse("attention.causal",
                       "which is not computed here for this architecture: false expected");
    else if (is("eurobert"))
      return;
    else if (causal == false)
      settings_.refuse("attention.causal",
                       "which is not computed here for this architecture: true expected");
  }

  void take_scales(double heads) {
    const double width = number("embedding_length").value_or(0),
                 layers = number("block_count").value_or(0);
    if (is("gemma2 gemma3")) {
      // Older files have no scale. Only the largest models divide by another width.
      const bool largest = layers == (is("gemma2") ? 46 : 62);
      const std::optional<double> scale = number("attention.scale"),
                                  key_length = number("attention.key_length");
      if (scale && *scale > 0)
        settings_.set_number("query_pre_attn_scalar", 1 / (*scale * *scale));
      else if (key_length && !largest)
        settings_.set_number("query_pre_attn_scalar", *key_length);
      else if (heads > 0 && width > 0)
        settings_.set_number("query_pre_attn_scalar", width / heads);
    }
    if (!is("minicpm")) return;
    // The first files of MiniCPM have none of the three keys.
    if (!settings_.number_but_0("embedding_scale")) settings_.set("embedding_multiplier", "12");
    if (!settings_.number_but_0("residual_scale") && layers > 0)
      settings_.set_number("residual_multiplier", 1.4 / std::sqrt(layers));
    else if (!settings_.number_but_0("residual_scale"))
      settings_.refuse("block_count", "is missing, which the scale of the residual stream needs");
    if (!settings_.number_but_0("logit_scale") && width > 0)
      settings_.set_number("logits_scaling", width / 256);
  }

  /// Files that split the matrix of keys and values have its widths under other keys.
  void take_latent_widths() {
    const auto rotated = number("rope.dimension_count");
    auto length = number("attention.key_length_mla");
    if (!length) length = number("attention.key_length");
    if (rotated && length) settings_.set_number("qk_nope_head_dim", *length - *rotated);
  }
};

} // namespace

std::map<std::string, std::string> config_of_gguf(const Gguf& file,
                                                  const GgufArchitecture& architecture) {
  return std::move(GgufConfig(file, architecture).settings_.config);
}

} // namespace mha::io
