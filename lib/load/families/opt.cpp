// OPT: BART's names in a decoder alone. Positions count from 2; normalised before attention, but in
// the 350m, which has narrower tables, too.

#include <mha/load/families/bart.hpp>
#include <mha/load/families/namings.hpp>

namespace mha::naming {

namespace {

// Without a model_type BART's decoder has the same names.
bool is_opt(const Group& group) {
  return group.is_model({"opt", "biogpt"});
}

void translate_opt(const Group& group, Translation& to) {
  take_bart(to);
  if (group.is_true({"do_layer_norm_before"}, true))
    set_bart_pre_norm(to);
  else
    to.set_post_norm();
}

/// BioGPT multiplies the tokens' rows by √d, unless scale_embedding is false.
void settle_biogpt(const Group& group, ModelRecord& record) {
  record.layers = "layers";
  record.tokens = "embed_tokens", record.positions = "embed_positions";
  record.last_norm = "layer_norm", record.head = "output_projection";
  group.configured("layer_norm_eps"); // which nothing reads: the norms have PyTorch's own, 1e-5
  record.activation_keys = "hidden_act", record.activation = "gelu";
  record.times_root_d = group.is_true({"scale_embedding"}, true), record.rounds_root_d = false;
}

void settle_opt(const Group& group, ModelRecord& record) {
  if (group.is_model({"biogpt"})) return settle_biogpt(group, record);
  if (!group.is_true({"do_layer_norm_before"}, true)) {
    record.shape = BlockShape::post;
    record.pre_mlp_norm = "self_attn_layer_norm", record.post_block_norm = "final_layer_norm";
    record.last_norm = "";
  }
  if (group.is_true({"_remove_final_layer_norm"})) record.last_norm = "";
  if (!group.is_true({"layer_norm_elementwise_affine"}, true)) record.norm_is_bare = true;
  group.configured("word_embed_proj_dim"); // which the tables tell
  if (group.elsewhere(group.parent(4) + "decoder.project_in.weight")) {
    record.embedding_linear = "decoder.project_in";
    record.embedding_linear_place = ProjectionPlace::tokens;
    record.embedding_linear_bias = Bias::never;
    record.head_dense = "decoder.project_out", record.head_dense_bias = Bias::never;
    record.head_activation = "identity";
  }
}

constexpr ModelRecord opt_record{
    .models = "opt biogpt",
    .layers = "decoder.layers",
    .tokens = "decoder.embed_tokens",
    .positions = "decoder.embed_positions",
    .first_position = 2,
    .pre_mlp_norm = "final_layer_norm",
    .mlp_in = "fc1",
    .mlp_out = "fc2",
    .activation_keys = "activation_function",
    .activation = "relu",
    .last_norm = "decoder.final_layer_norm",
    .head = "lm_head",
    .tied = true,
    .settle = settle_opt,
};

} // namespace

const Family opt{"opt",      "OPT",  opt_record.models, bart_needs,
                 bart_knows, is_opt, translate_opt,     &opt_record};

} // namespace mha::naming
