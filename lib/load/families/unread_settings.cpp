#include <mha/load/families/unread_settings.hpp>

#include <mha/load/families/config_keys.hpp>
#include <mha/load/families/description.hpp>
#include <mha/system/characters.hpp>
#include <mha/system/one_of.hpp>
#include <mha/system/words.hpp>

#include <algorithm>
#include <iterator>

namespace mha::naming {

namespace {

/// Keys for training, generation, other heads and software, on which no number of a forward pass
/// depends. "NAME." is an object, ".NAME" follows another name.
constexpr std::string_view without_effect[]{
    // The program that wrote the file, and its version.
    "architectures", "model_type", "model_name", "_name_or_path", "name_or_path", "torch_dtype",
    "dtype", "transformers_version", "tokenizer_class", "tokenizer_name", "prefix",
    "processor_class", "unsloth_version", "unsloth_fixed", "vocab_file", "original_architecture",
    "mlx_version", "language", "license", "initial_model", "checkpoint_index", "from_checkpoint",
    "checkpoint_label_type", "checkpoint_value", "seed", "dataset_name", "tokenizer_prepends_bos",
    "default_padding_side", "default_prepend_bos", "post_embedding_ln_frozen", "_num_labels",
    "tokenizer_revision",
    // Execution.
    "use_cache", "cache_implementation", "return_dict", "use_return_dict",
    "return_dict_in_generate", "output_hidden_states", "output_attentions", "output_scores",
    "output_past", "torchscript", "use_bfloat16", "tf_legacy_loss", "chunk_size_feed_forward",
    "gradient_checkpointing", "gradient_checkpointing_use_reentrant", "_attn_implementation",
    "attn_implementation", "_attn_implementation_autoset", "_attn_implementation_internal",
    "_flash_attn_2_enabled", "use_flash_attn", "flash_attn", "flash_rotary", "fused_dense",
    "use_flash_attention", "use_flash_attention_2", "use_sdpa", "reorder_and_upcast_attn",
    "scale_attention_softmax_in_fp32", "attention_softmax_in_fp32", "pretraining_tp",
    "keys_to_ignore_at_inference", "n_devices", "device", "init_weights", "init_mode", "checkpoint",
    "trust_remote_code", "use_hook_mlp_in", "use_attn_in", "use_attn_result", "use_split_qkv_input",
    "use_hook_tokens", "ungroup_grouped_query_attention", "tie_encoder_decoder",
    "cross_attention_hidden_size", "bias_dropout_fusion", "masked_softmax_fusion", "offset_alibi",
    "skip_bias_add", "skip_bias_add_qkv", "slow_but_exact", "deterministic_flash_attn",
    "reference_compile", "sparse_prediction", "sparse_pred_ignore_index", "repad_logits_with_grad",
    // Properties that the tensors show.
    "enable_bias", "no_bias", "expansion_ratio", "ff_factor",
    // Training.
    "attention_dropout", "attention_probs_dropout_prob", "hidden_dropout", "hidden_dropout_prob",
    "dropout_rate", "attn_pdrop", "embd_pdrop", "resid_pdrop", "emb_pdrop", "dropout",
    "activation_dropout", "classifier_dropout", "classifier_dropout_prob", "embedding_dropout",
    "residual_dropout", "qa_dropout", "seq_classif_dropout", "sequence_classif_dropout",
    "initializer_range", "initializer_factor", "initializer_cutoff_factor", "init_std", "layerdrop",
    "mlp_dropout", "router_aux_loss_coef", "output_router_logits", "router_z_loss_coef",
    "aux_loss_alpha", "sinusoidal_pos_embds", "tie_weights_", "weight_init_scale",
    "initializer_scale", "problem_type", "finetuning_task", "num_labels", "n_special",
    "predict_special_tokens", "embd_layer_norm", "label_smoothing",
    // Ids of tokens, and generation.
    "bos_token_id", "eos_token_id", "eos_token_ids", "sep_token_id", "pad_token_id", "unk_token_id",
    "cls_token_id", "mask_token_id", "decoder_start_token_id", "forced_bos_token_id",
    "forced_eos_token_id", "max_length", "min_length", "do_sample", "early_stopping", "num_beams",
    "num_beam_groups", "diversity_penalty", "temperature", "top_k", "top_p", "typical_p",
    "repetition_penalty", "length_penalty", "no_repeat_ngram_size", "encoder_no_repeat_ngram_size",
    "bad_words_ids", "num_return_sequences", "remove_invalid_values",
    "exponential_decay_length_penalty", "suppress_tokens", "begin_suppress_tokens", "bos_token",
    "eos_token", "pad_token", "unk_token", "max_new_tokens", "image_token_index", "image_token_id",
    "video_token_id", "vision_start_token_id", "vision_end_token_id", "vision_token_id",
    "boi_token_index", "eoi_token_index", "boi_token_id", "eoi_token_id", "mm_tokens_per_image",
    "audio_token_id",
    // Other heads.
    "summary_type", "summary_use_proj", "summary_activation", "summary_proj_to_labels",
    "summary_first_dropout", "pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers",
    "pooler_size_per_head", "pooler_type", "pooler_hidden_act", "pooler_hidden_size",
    "directionality", "classifier_pooling",
    // Trained lengths, and keys that only matter with another key.
    "max_position_embeddings", "original_max_position_embeddings", "n_positions", "n_ctx",
    "max_sequence_length", "max_seq_len", "max_seq_length", "model_max_length", "seq_length",
    "block_size", "context_length", "sliding_window_size", "rotary_scaling_factor_trained",
    "initial_context_length",
    // Objects, with all their members.
    "id2label.", "label2id.", "task_specific_params.", "auto_map.", "custom_pipelines.",
    "vision_config.", "audio_config.", "image_processor.", "generation_config.",
    "sentence_transformers.", "tokenizer_config.", "init_config.", "text_encoder.",
    // Such keys of GGUF files, and those that the architecture or the tensors make redundant.
    "general.", "tokenizer.", "split.", "quantize.", ".pooling_type", ".rope.scaling.finetuned",
    ".tensor_data_layout"};

/// A key that changes no number at this value and is reported at others. (Gemma 3's pattern comes
/// with layer_types, which are read.)
struct AtRest {
  std::string_view key, value;
  bool is_refused = false; ///< other values are an error, because no family computes them
};
// clang-format off
constexpr AtRest at_rest[]{
    {"is_encoder_decoder", "false"}, {"mlp_type", "default"}, {"norm_type", "layer_norm"},
    {"use_embedding_sharing", "true"}, {"use_gated_activation", "true"},
    {"use_parallel_block", "true"}, {"use_parallel_embedding", "false"},
    {"position_embedding_type", "rope_gptj"}, {"order_of_interleaved_layers", "local_attn_first"},
    {"is_folding_model", "false"}, {"attn_config.qk_ln", "false"}, {"is_decoder", "false"},
    {"add_cross_attention", "false"}, {"scale_embedding", "false"}, {"logit_scale", "1"},
    {"attention_bias", "false"}, {"mlp_bias", "false"}, {"lm_head_bias", "false"},
    {"use_bias", "false"}, {"use_qkv_bias", "false"}, {"bias", "false"}, {"qk_layernorm", "false"},
    {"use_qk_norm", "false"}, {"rotary", "true"}, {"position_embedding_type", "absolute"},
    {"_sliding_window_pattern", "6"}, {"hidden_act_fused", "false"}, {"final_rms", "true"},
    {"experts_per_token", "0"}, {"net_structure_type", "0"}, {"gap_size", "0"},
    {"num_memory_blocks", "0"}, {"down_scale_factor", "1"}, {"alibi", "false"},
    {"use_sliding_window", "false"}, {"use_bidirectional_attention", "false"},
    {"logits_scaling", "1"}, {"residual_multiplier", "1"}, {"embedding_multiplier", "1"},
    {"scale_attn_weights", "true"}, {"scale_attn_by_inverse_layer_idx", "false"},
    {"clip_qkv", "0"}, {"layer_norm_elementwise_affine", "true"}, {"use_local_attn", "false"},
    {"attn_scores_soft_cap", "-1"}, {"output_logits_soft_cap", "-1"},
    {"attn_config.prefix_lm", "false", true}, {"use_mrope", "false", true},
    {"full_attn_mod", "1", true}, {"interpolate_factor", "1", true},
    {"use_normalization_before_and_after", "false", true},
    {"use_ntk_by_parts_rope", "false", true}, {"use_NTK_by_parts_rope", "false", true},
    {".nextn_predict_layers", "0", true}};
// clang-format on

/// Keys that a whole model needs in addition to its layers' attention and its sizes.
constexpr std::string_view of_whole_model =
    "d_vocab_out tie_word_embeddings type_vocab_size embedding_size hidden_act hidden_activation "
    "activation_function activation act_fn final_logit_softcapping output_logits_soft_cap mlp_bias "
    "use_parallel_residual parallel_attn_mlp gated_mlp attn_only embedding_multiplier "
    "residual_multiplier logits_scaling num_local_experts num_experts num_experts_per_tok mlp_type "
    "norm_type positional_embedding_type layer_types d_ffn shared_intermediate_size "
    "moe_intermediate_size shared_expert_intermediate_size n_routed_experts n_shared_experts "
    "routed_scaling_factor first_k_dense_replace decoder_sparse_step mlp_only_layers "
    "norm_topk_prob";

/// Whether a key is a size that a lone layer does not use, or takes from its tensors.
bool is_size_of_whole_model(std::string_view key) {
  const auto spellings = size_spellings(key);
  return !spellings.empty() && spellings[0] != "num_attention_heads" &&
         spellings[0] != "num_key_value_heads";
}

/// Whether the description of a whole model reads a key for the parts around attention.
bool is_read_by_model(const Description& description, std::string_view key) {
  return std::ranges::any_of(
      std::initializer_list<const DescribedValue*>{
          &description.softcap, &description.head_scale, &description.unit_inputs,
          &description.token_scale, &description.residual_scale, &description.activation,
          &description.head_activation,
          &description.norm_form.eps}, // which is also the eps of later norms
      [&](const DescribedValue* value) { return is_one_of(key, value->keys); });
}

/// Whether layer_types gives every layer full attention, which a family without windows computes.
bool is_full_attention_alone(std::string_view list) {
  if (list == "[full_attention]") return true; // a single layer
  return std::ranges::all_of(split_at(list, ','),
                             [](std::string_view kind) { return kind == "full_attention"; });
}

/// Whether a row's word matches a key: "NAME." matches its members, ".NAME" any prefix.
bool is_of_key(std::string_view word, std::string_view key) {
  // Each key is compared with hundreds of words, nearly all of which have another first letter.
  if (word.front() != '.' && (key.empty() || word.front() != key.front())) return false;
  if (word.starts_with('.')) return key.ends_with(word);
  if (!word.ends_with('.')) return word == key;
  return key.starts_with(word) || key == word.substr(0, word.size() - 1);
}

/// The consequence of a key that nothing reads.
struct Effect {
  enum class Kind : std::uint8_t { none, reported, refused };
  Kind kind = Kind::reported;
  std::string_view only = {}; ///< the only value that is accepted
};

Effect effect_of(std::string_view key, std::string_view value) {
  const auto is_word = [&](std::string_view word) { return is_of_key(word, key); };
  if (value == "null" || value == "{}" || value.empty() ||
      (key == "layer_types" && is_full_attention_alone(value)) ||
      std::ranges::any_of(without_effect, is_word))
    return {Effect::Kind::none};
  Effect found;
  for (const AtRest& row : at_rest) {
    if (!is_of_key(row.key, key)) continue;
    if (row.value == value || fmt::format("{}.0", row.value) == value) return {Effect::Kind::none};
    if (row.is_refused) found = {Effect::Kind::refused, row.value};
  }
  return found;
}

/// A value for a message, cut at a character.
std::string beginning_of(std::string_view value) {
  constexpr std::size_t most = 60;
  if (value.size() <= most) return std::string(value);
  std::size_t end = most;
  while (end > 0 && continues_utf8(value[end])) --end;
  return fmt::format("{}…", value.substr(0, end));
}

bool in_section(std::string_view key, std::string_view section) {
  return key.starts_with(section);
}

/// The family with the longest name that a model's name begins with, or nullptr.
const FamilyRow* family_of_model(std::string_view name) {
  const std::string letters = bare_letters(name);
  const FamilyRow* found = nullptr;
  std::size_t length = 0;
  for (const FamilyRow* family : families()) {
    const std::string own = bare_letters(family->name);
    if (own.size() > length && letters.starts_with(own)) found = family, length = own.size();
  }
  return found;
}

/// Whether a class computes a model_type that has another name.
bool is_class_of(std::string_view made, std::string_view type) {
  constexpr std::pair<std::string_view, std::string_view> others[]{
      {"hunyuandensev1", "hunyuan_v1_dense"},
      {"hunyuanmoev1", "hunyuan_v1_moe"},
      {"deepseekv3", "kimi_k2"},
      {"bailingmoev2", "bailing_moe"}};
  const std::string model = model_of_name(made);
  return model == model_of_name(type) ||
         std::ranges::count(others, std::pair<std::string_view, std::string_view>(model, type)) > 0;
}

/// Warns if the class that computed the model does not fit the model_type that is read here.
/// Without a model_type, the family's first one is read, whatever the class.
void note_other_architecture(const Config& config, std::string_view models, bool whole,
                             std::vector<Note>& notes) {
  const auto type = config.find("model_type"), made = config.find("architectures");
  if (made == config.end() || made->second == "null") return;
  const std::string_view first_class =
      std::string_view(made->second).substr(made->second.starts_with('[') ? 1 : 0);
  const std::string_view first = first_class.substr(0, first_class.find_first_of(",]"));
  const std::string_view usual = models.substr(0, models.find(' '));
  if (first.empty()) return;
  if (type == config.end() || type->second == "null") {
    if (whole && !usual.empty() && model_of_name(first) != model_of_name(usual))
      notes.push_back(warning(fmt::format(
          "config.json has no model_type, and architectures {}: read as '{}'. If it is another "
          "model, its numbers differ: add its model_type",
          beginning_of(made->second), usual)));
    return;
  }
  const FamilyRow *const of_type = family_of_model(type->second), *const of_class =
                                                                      family_of_model(first_class);
  const bool differs = whole && !usual.empty() ? !is_class_of(first, type->second)
                                               : of_type && of_class && of_type != of_class;
  if (differs)
    notes.push_back(warning(fmt::format(
        "config.json has model_type '{}' and architectures {}: the first is read. If the second "
        "is right, the numbers are another model's",
        type->second, beginning_of(made->second))));
}

/// Warns about a checkpoint's own code, which Transformers runs instead of its class for that
/// model_type.
void note_own_code(const Config& config, std::vector<Note>& notes) {
  const auto code = std::ranges::find_if(config, [](const auto& member) {
    return member.first.starts_with("auto_map.AutoModel") && member.second != "null";
  });
  if (code == config.end()) return;
  const auto type = config.find("model_type");
  notes.push_back(warning(fmt::format(
      "config.json: auto_map names the model's own code ({}), which is not read: computed is {}. "
      "If that code computes something else, its numbers differ",
      beginning_of(code->second),
      type == config.end() || type->second == "null"
          ? std::string("the model that its tensors' names suggest")
          : fmt::format("'{}' as Transformers does", type->second))));
}

/// Settings that have a number or a name in every model; null means that the value was lost.
constexpr std::string_view never_null =
    "rms_norm_eps layer_norm_eps layer_norm_epsilon norm_eps norm_epsilon layernorm_epsilon "
    "rope_theta rotary_emb_base hidden_act hidden_activation activation_function hidden_size "
    "n_embd num_attention_heads n_head";

/// Warns about a setting that is read and null, for which the family's usual value is used.
void note_lost_values(const Group& group, std::string_view section, std::vector<Note>& notes) {
  if (!group.reads) return;
  for (const std::string_view key : words_of(never_null)) {
    const auto at = group.config->find(std::string(section) + std::string(key));
    if (at != group.config->end() && at->second == "null" && group.reads->asked_setting(key))
      notes.push_back(warning(
          fmt::format("config.json: {} is null: the usual value of such models is taken", key)));
  }
}

/// Warns about a setting that is read and has two values: one in the text model's section, another
/// outside.
void note_two_values(const Group& group, std::string_view section, std::vector<Note>& notes) {
  if (section.empty() || !group.reads) return;
  const Config& config = *group.config;
  for (const auto& [key, value] : config) {
    const auto inner = config.find(std::string(section) + key);
    if (inner == config.end() || inner->second == value || value == "null" ||
        inner->second == "null" || is_ignored_setting(key, value) ||
        !group.reads->asked_setting(key))
      continue;
    notes.push_back(warning(fmt::format(
        "config.json: {} is {} in {} and {} beside it: the first is read", key,
        beginning_of(inner->second), section.substr(0, section.size() - 1), beginning_of(value))));
  }
}

} // namespace

std::string model_of_name(std::string_view name) {
  if (name.ends_with("_text")) name.remove_suffix(5);
  for (const std::string_view end : {"For", "Model", "LMHead", "DoubleHeads", "PreTrained"})
    for (std::size_t at = 1; (at = name.find(end, at)) != name.npos; ++at)
      if (const std::size_t next = at + end.size();
          next == name.size() || ascii_upper(name[next]) == name[next])
        name = name.substr(0, at); // but not at the "For" in RoFormer
  return bare_letters(name);
}

bool is_ignored_setting(std::string_view key, std::string_view value) {
  return effect_of(key, value).kind == Effect::Kind::none;
}

std::vector<Note> unread_settings(const Found& layer, const Description& description, bool whole) {
  const Group& group = layer.group;
  if (group.description) return unread_by_description(group);
  const Config& config = *group.config;
  std::string_view section; // of the text model
  for (std::string_view known : text_sections)
    if (const auto at = config.lower_bound(std::string(known));
        section.empty() && at != config.end() && in_section(at->first, known))
      section = known;
  std::string list, quantised;
  std::size_t count = 0;
  constexpr std::size_t most = 4;
  for (const auto& [whole_key, value] : config) {
    std::string_view key = whole_key;
    if (key.starts_with("quantization_config") || key.starts_with("compression_config")) {
      if (value != "{}" && value != "null" && (key.ends_with("quant_method") || quantised.empty()))
        quantised = value;
      continue;
    }
    if (!section.empty() && !in_section(key, section)) continue; // of another part or the whole
    key.remove_prefix(section.size());
    const bool overruled = group.reads && group.reads->overruled(key);
    if (!overruled && group.reads && group.reads->asked_setting(key)) continue;
    const Effect effect = effect_of(key, value);
    if (effect.kind == Effect::Kind::none) continue;
    // In a whole model, sizes are checked against the tensors, by the spelling that counts.
    if (!overruled && is_size_of_whole_model(key)) continue;
    if (!whole && (has_word(of_whole_model, key) || is_read_by_model(description, key))) continue;
    const std::optional<std::string> name = name_in_file(group, key, value);
    if (!name || (!whole && name->find(".expert_") != name->npos)) continue;
    if (effect.kind == Effect::Kind::refused)
      fail("{}: {} is {}, which is not computed here: {} expected; describe the model by <naming> "
           "FILE.json<draft naming>",
           group.contents->format == "gguf" ? group.contents->name : "config.json", *name,
           beginning_of(value), effect.only);
    if (++count <= most)
      list += fmt::format("{}{} {}", list.empty() ? "" : ", ", *name, beginning_of(value));
  }
  std::vector<Note> notes = doubts_of(group);
  note_other_architecture(config, whole_models_of(*layer.family), whole, notes);
  note_own_code(config, notes);
  note_two_values(group, section, notes);
  note_lost_values(group, section, notes);
  if (count > most) list += fmt::format(" and {} more", count - most);
  if (count > 0)
    notes.push_back(warning(fmt::format(
        "{}: not read here: {}. If the model computes with it, its numbers differ",
        group.contents->format == "gguf" ? group.contents->name : "config.json", list)));
  const bool is_decoded = quantised == "mxfp4" && description.tensor("W_router");
  if (!quantised.empty() && !is_decoded)
    notes.push_back(warning(fmt::format(
        "config.json has quantization_config ({}): the weights are read from the file unchanged, "
        "not quantised",
        beginning_of(quantised))));
  return notes;
}

void note_unread_settings(const Found& layer, std::vector<Note>& notes) {
  // A file with its own keys has them reported even if the family's whole model is not described.
  const bool whole = has_whole_model(*layer.family);
  if (!whole && layer.group.contents->format != "gguf") return;
  const auto description = whole && !layer.group.description
                               ? model_of(*layer.family, layer.group)
                               : std::make_shared<const Description>();
  for (Note& note : unread_settings(layer, *description, false)) notes.push_back(std::move(note));
}

} // namespace mha::naming
