#include <mha/layer/stage.hpp>

#include <mha/layer/layer.hpp>
#include <mha/layer/other_inputs.hpp>

#include <algorithm>

namespace mha {

namespace {

using enum Stage;
using enum Dim;

// When a layer has a step.
bool has_c_q(const Layer& layer) {
  return !layer.W_c_q.empty();
}
bool has_c_kv(const Layer& layer) {
  return !layer.W_c_kv.empty();
}
bool has_q_norm(const Layer& layer) {
  return !layer.q_norm_weight.empty();
}
bool has_k_norm(const Layer& layer) {
  return !layer.k_norm_weight.empty();
}
bool has_v_norm(const Layer& layer) {
  return !layer.v_norm_weight.empty();
}
/// Keys and values may come from another layer, after their norms and rotation: then this one makes
/// none.
bool makes_keys(const Layer& layer) {
  return !layer.W_k.empty() || !(layer.has_given(k_rope) || layer.has_given(k_norm));
}
bool makes_values(const Layer& layer) {
  return !layer.W_v.empty() || !layer.has_given(v_norm);
}
bool has_gate(const Layer& layer) {
  return !layer.W_gate.empty() || layer.has_given(gate);
}
bool has_head_norm(const Layer& layer) {
  return !layer.head_norm_weight.empty();
}
bool has_rope(const Layer& layer) {
  return layer.settings.rope != Rope::none;
}
bool has_other_keys(const Layer& layer) {
  const bool has_sizes = layer.dims.S_all > 0 || layer.dims.S > 0;
  return has_sizes ? layer.dims.S_all != layer.dims.S
                   : !layer.k_past.empty() || !layer.k_extra.empty() || layer.settings.zero_attn;
}
bool has_softcap(const Layer& layer) {
  return layer.settings.softcap != 0;
}
bool has_bias(const Layer& layer) {
  return !layer.bias.empty() || !layer.relative_bias.empty() || !layer.relative_key.empty() ||
         layer.settings.alibi != Alibi::none;
}
bool has_residual(const Layer& layer) {
  return layer.settings.residual;
}

// When a layer computes a stage from other inputs than the table's (other_inputs_table).
bool has_own_keys(const Layer& layer) {
  return !layer.X_k.empty();
}
bool has_own_values(const Layer& layer) {
  return !layer.X_v.empty();
}
bool is_naive(const Layer& layer) {
  return layer.settings.softmax == Softmax::naive;
}
bool has_relative_key(const Layer& layer) {
  return !layer.relative_key.empty() && !layer.settings.relative_key_query;
}
bool has_relative_key_query(const Layer& layer) {
  return !layer.relative_key.empty() && layer.settings.relative_key_query;
}
bool has_relative_key_of_norms(const Layer& layer) {
  return !layer.relative_key.empty() && norms_after_rotation(layer);
}
bool has_stable_sinks(const Layer& layer) {
  return !layer.sinks.empty() && !is_naive(layer);
}
bool has_patched_heads(const Layer& layer) {
  return layer.patches.has(head_result);
}
template <BlockShape shape> bool is_block(const Layer& layer) {
  return layer.block && layer.block->shape == shape;
}
const Mixture* mixture_of(const Layer& layer) {
  return layer.block ? layer.block->mixture.get() : nullptr;
}
bool is_mixture(const Layer& layer) {
  return mixture_of(layer) != nullptr;
}
bool weighs_input(const Layer& layer) {
  return is_mixture(layer) && mixture_of(layer)->routing.weighs_input;
}
bool lacks_router_norm(const Layer& layer) {
  return !is_mixture(layer) || !mixture_of(layer)->router_norm.present();
}
bool lacks_experts_norm(const Layer& layer) {
  return !is_mixture(layer) || !mixture_of(layer)->experts_norm.present();
}
bool has_norm_of_sum(const Layer& layer) {
  return is_mixture(layer) && mixture_of(layer)->norm_of_sum.present();
}
bool has_no_gate(const Layer& layer) {
  return !has_gate(layer) && !layer.has_given(gated);
}
bool is_dense(const Layer& layer) {
  return !is_mixture(layer);
}

// clang-format off
const std::array<StageInfo, stage_count> table{{
  {embed, "embed", Kind::token, Section::model, {T, d_model}, "tokens + positions", "what enters the first block: tokens, positions, types, scale, norm", "of a whole model", {}, ""},
  {resid_pre, "resid_pre", Kind::token, Section::stream, {T, d_model}, "X", "the residual stream before the layer", "in a whole model", {}, "hook_resid_pre"},
  {x, "x", Kind::token, Section::input, {T, d_model}, "X", "the input as the projections see it, after input_norm", "always", {resid_pre}, ""},
  {c_q, "c_q", Kind::token, Section::input, {T, r_q}, "norm(x W_q_a)", "compressed queries of latent attention", "if it has W_q_a", {x}, "q_a_layernorm", has_c_q},
  {c_kv, "c_kv", Kind::token, Section::input, {T, r_kv}, "norm(x W_kv_a)", "compressed keys and values of latent attention", "if it has W_kv_a", {x}, "kv_a_layernorm", has_c_kv},
  {k_pe, "k_pe", Kind::token, Section::input, {T, d_pe}, "x W_kv_a", "the part of the key that has the position and is every head's, before its rotation", "if it has W_kv_a", {x}, "", has_c_kv},
  {q, "q", Kind::token, Section::heads, {H, T, d_k}, "x W_q + b_q", "queries, split into heads", "always", {c_q}, "hook_q"},
  {k, "k", Kind::token, Section::heads, {H_kv, S, d_k}, "X_k W_k + b_k", "keys, split into heads", "unless keys are given after their norm or rotation", {c_kv, k_pe}, "hook_k", makes_keys},
  {v, "v", Kind::token, Section::heads, {H_kv, S, d_v}, "X_v W_v + b_v", "values, split into heads", "unless values are given after their norm", {c_kv}, "hook_v value_states Vcur", makes_values},
  {q_norm, "q_norm", Kind::token, Section::heads, {H, T, d_k}, "norm(q)", "queries after QK normalisation", "if it has q_norm.weight", {q}, "", has_q_norm},
  {k_norm, "k_norm", Kind::token, Section::heads, {H_kv, S, d_k}, "norm(k)", "keys after QK normalisation", "if it has k_norm.weight", {k}, "", has_k_norm},
  {v_norm, "v_norm", Kind::token, Section::heads, {H_kv, S, d_v}, "norm(v)", "values after their normalisation", "if it has v_norm.weight", {v}, "", has_v_norm},
  {q_rope, "q_rope", Kind::token, Section::heads, {H, T, d_k}, "rotate(q)", "queries after rotary position embedding", "if rope is set", {q_norm}, "hook_rot_q rot_q", has_rope},
  {k_rope, "k_rope", Kind::token, Section::heads, {H_kv, S, d_k}, "rotate(k)", "keys after rotary position embedding", "if rope is set", {k_norm}, "hook_rot_k rot_k", has_rope},
  {k_all, "k_all", Kind::token, Section::heads, {H_kv, S_all, d_k}, "past, k, extra, 0", "the keys attended to: past, current, learned extra and zero ones", "if there are past, extra or zero keys", {k_rope}, "", has_other_keys},
  {v_all, "v_all", Kind::token, Section::heads, {H_kv, S_all, d_v}, "past, v, extra, 0", "the values attended to", "if there are past, extra or zero keys", {v_norm}, "", has_other_keys},
  {gate, "gate", Kind::token, Section::heads, {H, T, d_gate}, "x W_gate + b_gate", "the gate of the heads' results, before its activation: a number an element, or a head", "if it has W_gate", {x}, "", has_gate},
  {scores, "scores", Kind::map, Section::scores, {H, T, S_all}, "q kᵀ", "dot products, before any scaling", "always", {q_rope, k_all}, "kq attn_raw"},
  {scaled, "scaled", Kind::map, Section::scores, {H, T, S_all}, "scores · scale", "scores after scaling", "always", {scores}, "attn_scaled"},
  {capped, "capped", Kind::map, Section::scores, {H, T, S_all}, "softcap · tanh(scaled / softcap)", "after the soft cap", "if softcap is set", {scaled}, "", has_softcap},
  {biased, "biased", Kind::map, Section::scores, {H, T, S_all}, "+ position bias", "plus the position bias: ALiBi, relative or explicit", "if there is a bias or alibi", {capped}, "", has_bias},
  {masked, "masked", Kind::map, Section::scores, {H, T, S_all}, "+ mask", "plus the mask; −inf where a query may not attend", "always", {biased}, "attn_masked attn_logits hook_attn_scores"},
  {row_max, "row_max", Kind::row, Section::softmax, {H, T}, "max(masked)", "the row's maximum, sinks included", "always", {masked}, ""},
  {shifted, "shifted", Kind::map, Section::softmax, {H, T, S_all}, "masked − row_max", "what the exponential sees", "always", {masked, row_max}, ""},
  {exp, "exp", Kind::map, Section::softmax, {H, T, S_all}, "exp(shifted)", "the exponentials", "always", {shifted}, ""},
  {row_sum, "row_sum", Kind::row, Section::softmax, {H, T}, "Σ exp", "the row's sum of exponentials, sinks included", "always", {exp}, ""},
  {logsumexp, "logsumexp", Kind::row, Section::softmax, {H, T}, "row_max + log row_sum", "the logarithm of the softmax's denominator", "always", {row_max, row_sum}, "lse softmax_lse"},
  {weights, "weights", Kind::map, Section::softmax, {H, T, S_all}, "exp / row_sum", "softmax over the keys: α", "always", {exp, row_sum},
   "alpha attn att pattern probs attention_probs attentions hook_pattern attn_softmax kq_soft_max attn_probs attn_output_weights"},
  {head_out, "head_out", Kind::token, Section::results, {H, T, d_v}, "weights v", "each head's weighted sum of values", "always", {weights, v_all}, "z hook_z kqv"},
  {head_norm, "head_norm", Kind::token, Section::results, {H, T, d_v}, "norm(head_out)", "the heads' results after their normalisation", "if it has head_norm.weight", {head_out}, "", has_head_norm},
  {gated, "gated", Kind::token, Section::results, {H, T, d_v}, "head_out · act(gate)", "the heads' results times their gate", "if it has W_gate", {head_norm, gate}, "", has_gate},
  {head_result, "head_result", Kind::head_result, Section::results, {H, T, d_out}, "head_out W_o[h]", "what each head adds to the output; the sum over heads, plus b_o, is the output", "always", {gated}, "result hook_result"},
  {concat, "concat", Kind::token, Section::joined, {T, H_d_v}, "heads side by side", "the heads' outputs, concatenated", "always", {gated}, ""},
  {output, "output", Kind::token, Section::joined, {T, d_out}, "concat W_o + b_o", "the layer's output", "always", {concat}, "y o out attn_out hook_attn_out"},
  {attn_add, "attn_add", Kind::token, Section::block, {T, d_out}, "norm(output)", "what attention adds to the stream", "in a whole model, if a norm follows output", {output}, ""},
  {residual, "residual", Kind::token, Section::sum, {T, d_out}, "X + output", "the input added back; in a post-norm block the sum before the norm", "if residual is set; in a whole model, but in parallel blocks", {attn_add}, "hook_resid_mid resid_mid", has_residual},
  {mlp_x, "mlp_x", Kind::token, Section::block, {T, d_model}, "norm(residual)", "what the feed-forward sees", "in a whole model, if it has a feed-forward", {residual}, ""},
  {router_x, "router_x", Kind::token, Section::block, {T, d_model}, "norm(residual)", "what the router sees", "in a whole model, if a mixture's router has a norm of its own", {residual}, ""},
  {router, "router", Kind::token, Section::block, {T, E}, "mlp_x W_router + b_router", "the logits of the experts", "in a whole model, if its feed-forward is a mixture", {mlp_x, router_x}, "router_logits ffn_moe_logits"},
  {router_scores, "router_scores", Kind::token, Section::block, {T, E}, "softmax(router) or σ(router)", "the scores of the experts, before any bias", "in a whole model, if its feed-forward is a mixture", {router}, "ffn_moe_probs"},
  {experts, "experts", Kind::token, Section::block, {T, n}, "the n best of router_scores", "the numbers of the chosen experts, the largest weight first", "in a whole model, if its feed-forward is a mixture", {router_scores}, ""},
  {expert_weights, "expert_weights", Kind::token, Section::block, {T, n}, "router_scores of experts, renormalised", "the weights of the chosen experts", "in a whole model, if its feed-forward is a mixture", {router_scores, experts}, ""},
  {experts_x, "experts_x", Kind::token, Section::block, {T, d_model}, "norm(residual)", "what the chosen experts see", "in a whole model, if a mixture's experts have a norm of their own", {residual}, ""},
  {mlp_pre, "mlp_pre", Kind::token, Section::block, {T, d_ff}, "mlp_x W_in + b_in", "before the activation; the gate of a gated one", "in a whole model, if it has a feed-forward", {mlp_x, experts_x, experts, expert_weights}, "hook_pre"},
  {mlp_up, "mlp_up", Kind::token, Section::block, {T, d_ff}, "mlp_x W_up + b_up", "the other factor of a gated feed-forward", "in a whole model, if its feed-forward is gated", {mlp_x, experts_x, experts, expert_weights}, "hook_pre_linear"},
  {mlp_act, "mlp_act", Kind::token, Section::block, {T, d_ff}, "act(mlp_pre)", "after the activation; the product of a gated one", "in a whole model, if it has a feed-forward", {mlp_pre, mlp_up}, "hook_post"},
  {expert_out, "expert_out", Kind::token, Section::block, {T, n_d_out}, "mlp_act W_out + b_out", "a chosen expert's result, before its weight", "in a whole model, if its feed-forward is a mixture", {mlp_act, experts}, ""},
  {experts_sum, "experts_sum", Kind::token, Section::block, {T, d_out}, "Σ weight · expert_out", "the weighed sum of the chosen experts' results", "in a whole model, if a norm follows a mixture's chosen experts", {expert_out, expert_weights}, ""},
  {experts_norm, "experts_norm", Kind::token, Section::block, {T, d_out}, "norm(experts_sum)", "their weighed sum after its norm", "in a whole model, if a norm follows a mixture's chosen experts", {experts_sum}, ""},
  {shared_pre, "shared_pre", Kind::token, Section::block, {T, I_shared}, "mlp_x W_in + b_in", "of the shared experts, before the activation", "in a whole model, if a mixture has shared experts", {mlp_x}, ""},
  {shared_up, "shared_up", Kind::token, Section::block, {T, I_shared}, "mlp_x W_up + b_up", "the other factor of gated shared experts", "in a whole model, if a mixture has gated shared experts", {mlp_x}, ""},
  {shared_act, "shared_act", Kind::token, Section::block, {T, I_shared}, "act(shared_pre)", "of the shared experts, after the activation", "in a whole model, if a mixture has shared experts", {shared_pre, shared_up}, ""},
  {shared_gate, "shared_gate", Kind::token, Section::block, {T, one}, "σ(mlp_x W_shared_gate)", "what multiplies the shared experts' result", "in a whole model, if its shared experts have a gate", {mlp_x}, ""},
  {shared_out, "shared_out", Kind::token, Section::block, {T, d_out}, "shared_act W_out + b_out", "the shared experts' result, before their gate", "in a whole model, if a mixture has shared experts", {shared_act}, ""},
  {shared_norm, "shared_norm", Kind::token, Section::block, {T, d_out}, "norm(shared_out)", "the shared experts' result after its norm", "in a whole model, if a norm follows a mixture's shared experts", {shared_out}, ""},
  {mlp_out, "mlp_out", Kind::token, Section::block, {T, d_out}, "mlp_act W_out + b_out", "the feed-forward's result", "in a whole model, if it has a feed-forward", {mlp_act, expert_out, expert_weights, experts_norm, shared_gate, shared_norm}, "hook_mlp_out"},
  {mlp_add, "mlp_add", Kind::token, Section::block, {T, d_out}, "norm(mlp_out)", "what the feed-forward adds to the stream", "in a whole model, if a norm follows mlp_out", {mlp_out}, ""},
  {layer_embed, "layer_embed", Kind::token, Section::block, {T, Dim::d_layer}, "(norm(embed W) + row) / √2", "the tokens' embedding for this layer", "in a whole model, if its layers have embeddings", {}, "per_layer_input"},
  {layer_add, "layer_add", Kind::token, Section::block, {T, d_model}, "norm((act(h W_in) · layer_embed) W_out)", "what the layer adds of it, h being residual + mlp_add", "in a whole model, if its layers have embeddings", {residual, mlp_add, layer_embed}, ""},
  {resid_post, "resid_post", Kind::token, Section::block, {T, d_out}, "residual + mlp_out", "the stream after the layer", "in a whole model", {residual, mlp_add, layer_add}, "hook_resid_post"},
  {final, "final", Kind::token, Section::model, {T, d_model}, "norm(resid_post)", "the last layer's stream after the last norm", "of a whole model, if it ends with a norm", {}, ""},
  {logits, "logits", Kind::token, Section::model, {T, vocabulary}, "final W_U + b_U", "what is predicted, before the softmax", "of a whole model, if it has a head", {final}, ""},
  {weights_mean, "weights_mean", Kind::derived, Section::derived, {T, S_all}, "mean over heads of α", "the weights of all heads", "by name", {weights}, ""},
  {value_norms, "value_norms", Kind::derived, Section::derived, {H, T, S_all}, "‖α_ts v_s W_o[h]‖", "how much each key adds to the output of a head", "by name", {weights, v_all}, ""},
  {value_norms_sum, "value_norms_sum", Kind::derived, Section::derived, {T, S_all}, "‖Σ_h α_ts v_s W_o[h]‖", "how much each key adds to the layer's output", "by name", {weights, v_all}, ""},
  {rollout, "rollout", Kind::derived, Section::derived, {T, S_all}, "rownorm(mean_h α + I) · layer before", "how much of each token is left after the layers", "by name", {weights}, ""},
  {received, "received", Kind::derived, Section::derived, {H, S_all}, "mean over rows of α_ts", "what each key gets", "by name", {weights}, ""},
  {divergence, "divergence", Kind::derived, Section::derived, {H, H}, "Jensen–Shannon divergence between heads, bits, mean over rows", "how far the weights of two heads are apart", "by name", {weights}, ""},
  {routing, "routing", Kind::derived, Section::derived, {T, E}, "expert_weights at experts", "the weight of each expert for each token, 0 where it is not chosen", "by name", {experts, expert_weights}, ""},
}};
// clang-format on

const std::vector<OtherInputs> other_inputs_table{
    {k, has_own_keys, {}},
    {q_norm, norms_after_rotation, {q_rope}},
    {k_norm, norms_after_rotation, {k_rope}},
    {q_rope, norms_after_rotation, {q}},
    {k_rope, norms_after_rotation, {k}},
    {k_all, norms_after_rotation, {k_norm}},
    {scores, norms_after_rotation, {q_norm, k_all}},
    {v, has_own_values, {}},
    {head_result, has_no_gate, {head_norm}},
    {concat, has_no_gate, {head_norm}},
    // q · r, and k · r, of the distance's vector r.
    {biased, has_relative_key_of_norms, {capped, q_norm, k_all}},
    {biased, has_relative_key, {capped, q_rope}},
    {biased, has_relative_key_query, {capped, q_rope, k_all}},
    // The naive softmax does not look at the maximum.
    {shifted, is_naive, {masked}},
    {logsumexp, is_naive, {row_sum}},
    {row_sum, has_stable_sinks, {exp, row_max}},
    // Patched head_results are not the product of concat and W_o: the output is computed from both.
    {output, has_patched_heads, {concat, head_result}},
    {mlp_x, is_block<BlockShape::parallel>, {resid_pre}},
    // Without norms of their own, router and experts see what the dense feed-forward would.
    {router_x, lacks_router_norm, {mlp_x}},
    {experts_x, lacks_experts_norm, {mlp_x}},
    {router_x, is_block<BlockShape::parallel>, {resid_pre}},
    {experts_x, is_block<BlockShape::parallel>, {resid_pre}},
    {router, is_mixture, {router_x}},
    {mlp_pre, weighs_input, {experts_x, experts, expert_weights}},
    {mlp_up, weighs_input, {experts_x, experts, expert_weights}},
    {mlp_pre, is_mixture, {experts_x, experts}},
    {mlp_up, is_mixture, {experts_x, experts}},
    {mlp_pre, is_dense, {mlp_x}},
    {mlp_up, is_dense, {mlp_x}},
    {mlp_out, has_norm_of_sum, {experts_norm, shared_gate, shared_norm}},
    {mlp_out, is_mixture, {expert_out, expert_weights, shared_gate, shared_norm}},
    {mlp_out, is_dense, {mlp_act}},
    {resid_post, is_block<BlockShape::attention_only>, {resid_pre, attn_add}},
    {resid_post, is_block<BlockShape::parallel>, {resid_pre, attn_add, mlp_add}},
    {resid_post, is_block<BlockShape::post>, {mlp_x, mlp_add}},
};

} // namespace

std::span<const StageInfo> stages() {
  return std::span(table).first(step_count);
}
std::span<const StageInfo> derived_stages() {
  return std::span(table).subspan(step_count);
}
std::span<const OtherInputs> other_inputs() {
  return other_inputs_table;
}
const std::vector<Stage>& steps_before(const Layer& layer, Stage stage) {
  for (const OtherInputs& other : other_inputs())
    if (other.stage == stage && other.holds(layer)) return other.inputs;
  return info_of(stage).inputs;
}
Stage in_turn(const Layer& layer, Stage place) {
  if (!norms_after_rotation(layer)) return place;
  return place == q_norm   ? q_rope
         : place == k_norm ? k_rope
         : place == q_rope ? q_norm
         : place == k_rope ? k_norm
                           : place;
}
const StageInfo& info_of(Stage stage) {
  if (index_of(stage) >= table.size()) fail("Stage({}) is not a stage", index_of(stage));
  return table[index_of(stage)];
}
std::string_view name_of(Stage stage) {
  return info_of(stage).name;
}

bool is_of(Stage stage, std::initializer_list<Section> sections) {
  return std::ranges::find(sections, info_of(stage).section) != sections.end();
}
bool is_stream(Stage stage) {
  return is_of(stage, {Section::model, Section::stream, Section::block});
}
bool is_derived(Stage stage) {
  return info_of(stage).kind == Kind::derived;
}

bool begins_with_heads(Stage stage) {
  const Axis first = axis_of(info_of(stage).letters[0]);
  return first == Axis::head || first == Axis::kv_head;
}

bool has_rows(Stage stage) {
  const StageInfo& info = info_of(stage);
  return info.kind == Kind::row || info.letters.size() > (begins_with_heads(stage) ? 2 : 1);
}

bool is_of_model(Stage stage) {
  return is_of(stage, {Section::model});
}
bool comes_before(Stage stage, Stage other) {
  const auto place = [](Stage of) { return std::ranges::find(table, of, &StageInfo::stage); };
  return place(stage) < place(other);
}
bool comes_before(const Layer& layer, Stage stage, Stage other) {
  return comes_before(in_turn(layer, stage), in_turn(layer, other));
}

} // namespace mha
