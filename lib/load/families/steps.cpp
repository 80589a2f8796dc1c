#include <mha/load/families/steps.hpp>

namespace mha::naming {

namespace {

/// Whether a shape is (3 · columns, columns): queries, keys and values of equal width.
bool is_threefold(const Group& group, std::string_view name) {
  const Shape shape = group.shape(name);
  return shape.size() == 2 && shape[0] == 3 * shape[1];
}

constexpr GroupTest tests[]{
    {"qk_norm_per_head", qk_norm_is_per_head},
    {"has_window", layer_has_window},
    {"rotates", layer_rotates},
    {"gemma4_full", gemma4_is_full},
    {"shares_keys", shares_keys},
    {"computes_hidden_act", computes_hidden_act},
    {"threefold_query_key_value",
     [](const Group& group) { return is_threefold(group, "query_key_value.weight"); }},
    {"threefold_c_attn", [](const Group& group) { return is_threefold(group, "c_attn.weight"); }},
    {"gpt2_shapes", has_gpt2_shapes},
    {"gpt_bigcode_shapes", has_gpt_bigcode_shapes},
    {"own_head", has_own_head},
    {"below_a_module", is_below_a_module},
    {"axis_of_heads", has_axis_of_heads},
    {"kernels_are_matrices", has_kernels_of_matrices},
    {"weights_of_keras", is_weights_of_keras},
    {"of_graph", is_of_graph},
};

constexpr LayerStep steps_of_layers[]{
    {"rotary", step_rotary, "style part base base_keys part_keys dims_key layer_type scaled fixed"},
    {"window", step_window, "layers width by_itself"},
    {"llama_heads", step_llama_heads, "heads kv_heads width"},
    {"unit_norms", step_unit_norms, "of"},
    {"value_scale", step_value_scale, "key default"},
    {"qk_norm", step_qk_norm, "made eps_key eps layer"},
    {"needs_qk_norm", step_needs_qk_norm, "of_heads of"},
    {"cohere_qk_norm", step_cohere_qk_norm},
    {"alternating_rotary", step_alternating_rotary, "style base layers by_window"},
    {"relative_key", step_relative_key, "name by_config"},
    {"roformer_table", step_roformer_table},
    {"latent_heads", step_latent_heads},
    {"query_scalar", step_query_scalar, "default"},
    {"gemma_activation", step_gemma_activation, "two_keys"},
    {"gemma2_softcap", step_gemma2_softcap},
    {"gemma3_positions", step_gemma3_positions, "each_fifth window"},
    {"gemma4_positions", step_gemma4_positions},
    {"mask_buffers", step_mask_buffers},
    {"pass_over", step_ignore, "*"},
    {"unsupported", step_unsupported, "*"},
    {"square", step_square, "key name taken axes naming"},
    {"gpt2_cross_attention", step_gpt2_cross_attention},
    {"gpt2_scale", step_gpt2_scale, "by_layer"},
    {"gpt_bigcode_doubt", step_gpt_bigcode_doubt},
    {"gpt_neo_window", step_gpt_neo_window},
    {"gptj_rotary", step_gptj_rotary},
    {"neox_biases", step_neox_biases, "japanese always"},
    {"persimmon_norms", step_persimmon_norms},
    {"mpt_limits", step_mpt_limits},
    {"word", step_word, "key words"},
    {"bart_heads", step_bart_heads},
    {"modernbert_positions", step_modernbert_positions},
    {"t5_bias", step_t5_bias},
    {"plain_vision", step_plain_vision},
    {"patch_rotary", step_patch_rotary, "base base_key"},
    {"window_bias", step_window_bias, "table index"},
    {"multihead_attention", step_multihead_attention},
    {"transformer_lens", step_transformer_lens},
    {"stacked_heads", step_stacked_heads, "*"},
    {"query_rows", step_query_rows, "*"},
    {"julia_heads", step_julia_heads, "*"},
    {"columns", step_columns},
    {"graph", step_graph},
};

constexpr ModelStep steps_of_models[]{
    {"modernbert_head", settle_modernbert_head},
    {"t5_feed_forward", settle_t5_feed_forward},
    {"transformer_lens", settle_transformer_lens},
};

} // namespace

std::span<const GroupTest> group_tests() {
  return tests;
}
std::span<const LayerStep> layer_steps() {
  return steps_of_layers;
}
std::span<const ModelStep> model_steps() {
  return steps_of_models;
}

std::optional<std::string> text_in(const JsonTree& arguments, std::string_view name) {
  const JsonTree* const member = arguments.find(name);
  return member ? std::optional(member->as_text(name)) : std::nullopt;
}
std::optional<double> number_in(const JsonTree& arguments, std::string_view name) {
  const JsonTree* const member = arguments.find(name);
  return member ? std::optional(member->as_number(name)) : std::nullopt;
}
bool flag_in(const JsonTree& arguments, std::string_view name, bool otherwise) {
  const JsonTree* const member = arguments.find(name);
  return member ? member->as_boolean(name) : otherwise;
}

} // namespace mha::naming
