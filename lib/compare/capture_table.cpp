#include <mha/compare/capture_names.hpp>

#include <mha/system/words.hpp>

#include <algorithm>
#include <span>

namespace mha {

namespace {

constexpr std::string_view tokens_alone =
    "the tokens' rows alone: embed has what the model adds to them";
constexpr std::string_view no_step = "no step of the model";
constexpr std::string_view of_one_expert = "of some experts' tokens alone";
constexpr std::string_view of_choice =
    "a step of the choice of experts, in a form that is not compared here";

} // namespace

// Found in Transformers' modules (hooks, nnsight), llama.cpp's graph, vLLM, SGLang,
// TransformerLens, MLX, candle, TensorRT-LLM, ONNX Runtime GenAI, nanoGPT, LitGPT and LLaMA's own
// code. The first row that holds wins; longer endings are tried before shorter ones.
// clang-format off
const std::vector<CaptureMeaning>& layer_meanings() {
  using enum Stage;
  using enum When;
  static const std::vector<CaptureMeaning> table{
  {post, "attention.output.LayerNorm sa_layer_norm self_attn_layer_norm attn_out_norm norm1 ln_1", {mlp_x}, {residual}},
  {post, "output.LayerNorm output_layer_norm final_layer_norm layer_out_norm norm2 ln_2", {resid_post}, {}},
  {post, "attention", {weights, mlp_x}, {resid_pre}},
  {any, "attention.self.dropout attn_dropout attention_dropout attention.dropout", {weights}, {weights}},
  {any, "attention.output.dropout attention.output_dropout resid_dropout resid_attn_dropout post_attention_dropout", {output}, {output}},
  {any, "output.dropout mlp.dropout ffn.dropout resid_mlp_dropout post_mlp_dropout", {mlp_out}, {mlp_out}},
  {any, "attention.self self_attn.attn attn.attn attention.attn", {concat}, {x}},
  {any, "attention.output.dense attention.dense self_attention.dense attn.c_proj attn.out_proj attn.proj self_attn.o_proj self_attn.out_proj self_attn.dense attention.wo attention.out_proj attention.out_lin", {output}, {concat}},
  {any, "input_layernorm norm_1 attn_norm attention_norm pre_attention_layernorm pre_attention_norm ln_1 ln1 norm1 self_attn_layer_norm ln1.hook_normalized", {x}, {resid_pre}},
  {inner, "post_attention_layernorm post_attention_norm attn_post_norm ln1_post ln1_post.hook_normalized hook_attn_out", {attn_add}, {output}},
  {inner, "pre_mlp_layernorm pre_feedforward_layernorm pre_ffw_norm ffn_norm ln2.hook_normalized ln2", {mlp_x}, {residual}},
  {inner, "post_mlp_layernorm post_feedforward_layernorm ffn_post_norm post_ffw_norm ln2_post ln2_post.hook_normalized hook_mlp_out", {mlp_add}, {mlp_out}},
  {parallel, "post_attention_layernorm post_layernorm norm_2 ffn_norm mlp_norm ln_2 ln2 norm2 ln2.hook_normalized", {mlp_x}, {resid_pre}},
  {sequential, "post_attention_layernorm post_layernorm norm_2 pre_ffw_norm ffn_norm mlp_norm ffn_layernorm pre_mlp_layernorm pre_feedforward_layernorm final_layer_norm post_attention_norm ln_2 ln2 norm2 ln2.hook_normalized", {mlp_x}, {residual}},
  {any, "self_attn.gate_proj self_attn.g_proj attn.gate_proj attn.g_proj", {gate}, {x}},
  {any, "attn_gated attn_out_gated", {concat}, {}},
  {any, "ffn_inp sa_out", {residual}, {}},
  {any, "l_out layer_out", {resid_post}, {}},
  {beside_dense, "router.proj", {router}, {router_x}},
  {beside_dense, "pre_feedforward_layernorm_2", {experts_x}, {residual}},
  {beside_dense, "post_feedforward_layernorm_1", {shared_norm}, {shared_out}},
  {beside_dense, "post_feedforward_layernorm_2", {experts_norm}, {experts_sum}},
  {beside_dense, "mlp.gate_proj", {shared_pre}, {mlp_x}},
  {beside_dense, "mlp.up_proj", {shared_up}, {mlp_x}},
  {beside_dense, "mlp.down_proj", {shared_out}, {shared_act}},
  {beside_dense, "mlp", {shared_out}, {mlp_x}},
  {beside_dense, "experts", {experts_sum}, {experts_x}},
  {mixture, "ffn_moe_logits router_logits block_sparse_moe.gate block_sparse_moe.router.layer", {router}, {mlp_x}},
  {mixture, "ffn_moe_probs", {router_scores}, {}},
  {mixture, "share_expert.gate_proj shared_expert.gate_proj shared_experts.gate_proj shared_mlp.gate_proj", {shared_pre}, {mlp_x}},
  {mixture, "share_expert.up_proj shared_expert.up_proj shared_experts.up_proj shared_mlp.up_proj", {shared_up}, {mlp_x}},
  {mixture, "share_expert.down_proj shared_expert.down_proj shared_experts.down_proj shared_mlp.down_proj", {shared_out}, {shared_act}},
  {mixture, "share_expert shared_expert shared_experts shared_mlp ffn_shexp", {shared_out}, {mlp_x}},
  {mixture, "block_sparse_moe moe ffn_out", {mlp_out}, {mlp_x}},
  {mixture, "gate_proj up_proj down_proj act_fn experts w1 w2 w3 gate_up_proj", {}, {}, of_one_expert},
  {mixture, "mlp.gate mlp.router gate router shared_expert_gate topk ffn_moe_topk ffn_moe_weights ffn_moe_weights_norm ffn_moe_weights_scaled ffn_moe_out", {}, {}, of_choice},
  {gated_mlp, "gate_proj ffn_gate feed_forward.w1 mlp.w1 w1 mlp.fc_1 mlp.fc", {mlp_pre}, {mlp_x}},
  {gated_mlp, "mlp.gate", {mlp_pre, mlp_up}, {mlp_x}}, // TensorRT-LLM's gate is the other factor
  {gated_mlp, "up_proj ffn_up ffn_up_b feed_forward.w3 mlp.w3 w3 mlp.up mlp.fc_2", {mlp_up}, {mlp_x}},
  {plain, "mlp.c_fc c_fc mlp.fc mlp.fc1 fc1 mlp.fc_in fc_in mlp.dense_h_to_4h dense_h_to_4h intermediate.dense ffn.lin1 lin1 up_proj ffn_up ffn_up_b", {mlp_pre}, {mlp_x}},
  {plain, "intermediate mlp.act mlp.gelu_impl ffn.activation act_fn activation_fn mlp.gelu intermediate.intermediate_act_fn intermediate_act_fn ffn_gelu ffn_relu ffn_silu ffn_relu_sqr ffn_act", {mlp_act}, {mlp_pre}},
  {gated_mlp, "act_fn mlp.act mlp.act_fn activation_fn ffn_silu ffn_gelu ffn_relu", {}, {mlp_pre}, "the activation without the gated product's other factor"},
  {any, "ffn_swiglu ffn_geglu ffn_reglu ffn_gate_par", {mlp_act}, {}},
  {any, "mlp.down_proj down_proj mlp.c_proj mlp.fc2 fc2 mlp.fc_out fc_out mlp.dense_4h_to_h dense_4h_to_h output.dense ffn.lin2 lin2 feed_forward.w2 mlp.w2 w2 mlp.proj ffn_down ffn_down_b", {mlp_out}, {mlp_act}},
  {any, "ffn_out", {mlp_out}, {}},
  {any, "mlp feed_forward ffn", {mlp_out}, {mlp_x}},
  {any, "self_attn attn attention self_attention attention.attention", {weights, output}, {x}},
  {any, "q_proj k_proj v_proj query key value q_lin k_lin v_lin wq wk wv c_attn qkv_proj Wqkv wqkv", {}, {x}},
  {any, "o_proj out_proj c_proj wo out_lin", {output}, {concat}},
  {any, "query_key_value", {}, {x}},
  {any, "q_rotary", {q_rope}, {}},
  {any, "k_rotary", {k_rope}, {}},
  {any, "ln1.hook_scale ln2.hook_scale hook_scale norm rotary_emb cos sin freqs_cis hook_attn_in hook_mlp_in hook_q_input hook_k_input hook_v_input lengths", {}, {}, no_step},
  };
  return table;
}

const std::vector<CaptureMeaning>& model_meanings() {
  using enum Stage;
  using enum When;
  static const std::vector<CaptureMeaning> table{
  {any, "embeddings embeddings.LayerNorm embeddings.dropout drop embd_drop emb_dropout word_embeddings_layernorm emb_ln inpL inp_norm inp_scaled embedding_output", {embed}, {}},
  {bare, "embed_tokens vocab_embedding wte tok_embeddings token_embd word_embeddings embed_in hook_embed inp_embd inputs_embeds", {embed}, {}},
  {any, "embed_tokens vocab_embedding wte tok_embeddings token_embd word_embeddings embed_in hook_embed inp_embd inputs_embeds", {}, {}, tokens_alone},
  {any, "wpe embed_positions position_embeddings pos_embd hook_pos_embed token_type_embeddings", {}, {}, "one part of embed alone"},
  {any, "norm final_norm_layernorm ln_f final_layernorm final_layer_norm ln_final norm_f last_norm result_norm final_norm output_norm ln_final.hook_normalized", {final}, {resid_post}},
  {any, "last_hidden_state encoder distilbert.transformer model.decoder", {final}, {}},
  {any, "lm_head embed_out result_output prediction_scores prediction_logits cls cls.predictions cls.predictions.decoder lm_head.decoder vocab_projector generator_lm_head logits_processor output", {logits}, {final}},
  {any, "predictions.transform transform.dense transform.LayerNorm transform.transform_act_fn lm_head.dense lm_head.layer_norm vocab_transform vocab_layer_norm generator_predictions pooler pooler.dense pooler.activation", {}, {}, "a step within the head, or of another head"},
  {any, "input_ids ids attention_mask position_ids cache_position cos sin rotary_emb freqs_cis inp_tokens inp_pos causal_mask KQ_mask inp_out_ids lengths seq_lens positions loss", {}, {}, no_step},
  };
  return table;
}
// clang-format on

namespace {

bool holds(When when, const Surroundings& model) {
  if (when == When::any) return true;
  if (when == When::bare) return model.bare_embedding;
  if (!model.block)
    return when != When::post && when != When::inner && when != When::parallel &&
           when != When::mixture && when != When::beside_dense;
  switch (when) {
  case When::parallel:
    return model.block->shape == BlockShape::parallel;
  case When::post:
    return model.block->shape == BlockShape::post;
  case When::inner:
    return model.block->shape == BlockShape::sandwich ||
           model.block->shape == BlockShape::post_inside;
  case When::sequential:
    return model.block->shape == BlockShape::pre;
  case When::gated_mlp:
    return model.block->mlp.gated();
  case When::plain:
    return !model.block->mlp.gated() && !model.block->mixture;
  case When::mixture:
    return model.block->mixture != nullptr;
  case When::beside_dense:
    return model.block->mixture && model.block->mixture->norm_of_shared.present();
  default:
    return true;
  }
}

} // namespace

std::string tail_of(const std::vector<std::string>& words, std::size_t count) {
  return joined_texts(std::span(words).last(count), ".");
}

const CaptureMeaning* meaning_of(const std::vector<CaptureMeaning>& table,
                                 const std::vector<std::string>& words, const Surroundings& model,
                                 std::size_t fewest) {
  for (std::size_t n = std::min<std::size_t>(words.size(), 3); n >= fewest; --n) {
    const std::string tail = tail_of(words, n);
    for (const CaptureMeaning& row : table)
      if (holds(row.when, model) && has_word(row.words, tail)) return &row;
  }
  return nullptr;
}

} // namespace mha
