#pragma once
// Functions that a family's file calls by name, for rules that data cannot express more briefly.

#include <mha/load/families/description.hpp>

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace mha::naming {

/// A test of a layer's tensors, for the conditions of a file: {"test": NAME}.
struct GroupTest {
  std::string_view name;
  bool (*holds)(const Group& group);
};
std::span<const GroupTest> group_tests();

/// A step of reading a layer: "steps": {NAME: arguments}. Steps run in the file's order, after the
/// listed tensors and settings.
struct LayerStep {
  std::string_view name;
  void (*take)(LayerReading& to, const JsonTree& arguments);
  std::string_view arguments = {}; ///< their names, separated by spaces; "*": any names
};
std::span<const LayerStep> layer_steps();

/// A step that completes the description of a whole model: "model_steps": {NAME: arguments}.
struct ModelStep {
  std::string_view name;
  void (*settle)(const Group& group, Description& description, const JsonTree& arguments);
  std::string_view arguments = {}; ///< as in LayerStep
};
std::span<const ModelStep> model_steps();

/// A member of a step's arguments, or nothing.
std::optional<std::string> text_in(const JsonTree& arguments, std::string_view name);
std::optional<double> number_in(const JsonTree& arguments, std::string_view name);
bool flag_in(const JsonTree& arguments, std::string_view name, bool otherwise = false);

// position_steps.cpp
void step_rotary(LayerReading& to, const JsonTree& arguments);
void step_window(LayerReading& to, const JsonTree& arguments);
void step_alternating_rotary(LayerReading& to, const JsonTree& arguments);
void step_latent_heads(LayerReading& to, const JsonTree& arguments);
void step_patch_rotary(LayerReading& to, const JsonTree& arguments);
bool layer_has_window(const Group& group);

// llama_steps.cpp
void step_llama_heads(LayerReading& to, const JsonTree& arguments);
void step_value_scale(LayerReading& to, const JsonTree& arguments);
void step_unit_norms(LayerReading& to, const JsonTree& arguments);
void step_qk_norm(LayerReading& to, const JsonTree& arguments);
void step_cohere_qk_norm(LayerReading& to, const JsonTree& arguments);
bool qk_norm_is_per_head(const Group& group);
bool layer_rotates(const Group& group);
void step_needs_qk_norm(LayerReading& to, const JsonTree& arguments);

// encoder_steps.cpp
void step_relative_key(LayerReading& to, const JsonTree& arguments);
void step_window_bias(LayerReading& to, const JsonTree& arguments);
void step_roformer_table(LayerReading& to, const JsonTree& arguments);
void step_word(LayerReading& to, const JsonTree& arguments);
void step_bart_heads(LayerReading& to, const JsonTree& arguments);
void step_modernbert_positions(LayerReading& to, const JsonTree& arguments);
void settle_modernbert_head(const Group& group, Description& description,
                            const JsonTree& arguments);

// gemma_steps.cpp
bool computes_hidden_act(const Group& group);
void step_query_scalar(LayerReading& to, const JsonTree& arguments);
void step_gemma_activation(LayerReading& to, const JsonTree& arguments);
void step_gemma2_softcap(LayerReading& to, const JsonTree& arguments);
bool gemma4_is_full(const Group& group);
bool shares_keys(const Group& group);
void step_gemma4_positions(LayerReading& to, const JsonTree& arguments);
void step_gemma3_positions(LayerReading& to, const JsonTree& arguments);

// gpt_steps.cpp
bool has_gpt2_shapes(const Group& group);
bool has_gpt_bigcode_shapes(const Group& group);
bool has_own_head(const Group& group);
void step_mask_buffers(LayerReading& to, const JsonTree& arguments);
void step_ignore(LayerReading& to, const JsonTree& arguments);
void step_unsupported(LayerReading& to, const JsonTree& arguments);
void step_square(LayerReading& to, const JsonTree& arguments);
void step_gpt2_cross_attention(LayerReading& to, const JsonTree& arguments);
void step_gpt2_scale(LayerReading& to, const JsonTree& arguments);
void step_gpt_bigcode_doubt(LayerReading& to, const JsonTree& arguments);
void step_gpt_neo_window(LayerReading& to, const JsonTree& arguments);
void step_gptj_rotary(LayerReading& to, const JsonTree& arguments);
void step_neox_biases(LayerReading& to, const JsonTree& arguments);
void step_persimmon_norms(LayerReading& to, const JsonTree& arguments);
void step_mpt_limits(LayerReading& to, const JsonTree& arguments);

// t5_steps.cpp
void step_t5_bias(LayerReading& to, const JsonTree& arguments);
void settle_t5_feed_forward(const Group& group, Description& description,
                            const JsonTree& arguments);

// library_steps.cpp
bool is_below_a_module(const Group& group);
bool has_axis_of_heads(const Group& group);
bool has_kernels_of_matrices(const Group& group);
bool is_weights_of_keras(const Group& group);
void step_plain_vision(LayerReading& to, const JsonTree& arguments);
void step_multihead_attention(LayerReading& to, const JsonTree& arguments);
void step_transformer_lens(LayerReading& to, const JsonTree& arguments);
void settle_transformer_lens(const Group& group, Description& description,
                             const JsonTree& arguments);
void step_julia_heads(LayerReading& to, const JsonTree& arguments);
void step_stacked_heads(LayerReading& to, const JsonTree& arguments);
void step_query_rows(LayerReading& to, const JsonTree& arguments);
void step_columns(LayerReading& to, const JsonTree& arguments);

// graph_steps.cpp
bool is_of_graph(const Group& group);
void step_graph(LayerReading& to, const JsonTree& arguments);

// albert_layers.cpp
/// Renames shared weights as if layers did not share them; returns false if none are shared.
bool unshare_albert_layers(io::Contents& file, const Config& config);

} // namespace mha::naming
