#include <mha/forward/attention.hpp>

#include <mha/forward/add.hpp>
#include <mha/forward/feed_forward.hpp>
#include <mha/forward/gate.hpp>
#include <mha/forward/head.hpp>
#include <mha/forward/latent.hpp>
#include <mha/forward/mixture.hpp>
#include <mha/forward/norm.hpp>
#include <mha/forward/rotary.hpp>
#include <mha/forward/supplement.hpp>
#include <mha/schedule/schedule.hpp>

// B batches, T queries, S keys, H heads over H_kv key/value heads, widths d_model, d_k, d_v. When,
// where and in whose memory is the schedule's (schedule/), how fast the kernels' (kernels/).

namespace mha {

namespace {

/// Latent attention: c_q and c_kv in x's place, k_pe beside them.
template <class T> void compress(const Layer& layer, Schedule<T>& run) {
  using enum Stage;
  using enum Sequence;
  const Routines& by = run.projecting();
  Compressed<T> W_c_q(by, layer, layer.W_c_q, layer.b_c_q, layer.c_q_norm_weight);
  Compressed<T> W_c_kv(by, layer, layer.W_c_kv, layer.b_c_kv, layer.c_kv_norm_weight);
  Linear<T> W_k_pe(by, layer, layer.W_k_pe, layer.b_k_pe);
  // c_q: T, r_q. c_kv: T, r_kv. k_pe: T, d_pe
  run.together({{query, {{c_q, W_c_q, x}}},     // norm(x W_c_q)
                {input, {{c_kv, W_c_kv, x}}},   // norm(x W_c_kv)
                {input, {{k_pe, W_k_pe, x}}}}); // x W_k_pe
}

/// From the stream to what the heads add to it.
template <class T> void attention(const Layer& layer, const Clip& clip, Schedule<T>& run) {
  using enum Stage;
  using enum Sequence;
  const Routines& by = run.projecting();
  InputNormOf<T> norm(layer);
  Linear<T> W_q(by, layer, layer.W_q, layer.b_q, nullptr, clip.q);
  Linear<T> W_k_alone(by, layer, layer.W_k, layer.b_k, &layer.X_k, clip.k);
  JoinedKeys<T> W_k(layer, W_k_alone, clip.k);
  Linear<T> W_v(by, layer, layer.W_v, layer.b_v, &layer.X_v, clip.v),
      W_o(by, layer, layer.W_o, layer.b_o);
  const std::size_t d_k = layer.dims.d_k, d_v = layer.dims.d_v;
  HeadNorm<T> norm_q(qk_norm_of(layer), d_k, layer.q_norm_weight, layer.q_norm_bias);
  HeadNorm<T> norm_k(qk_norm_of(layer), d_k, layer.k_norm_weight, layer.k_norm_bias);
  HeadNorm<T> norm_v(rms_norm_of_heads(layer), d_v, layer.v_norm_weight);
  HeadNorm<T> norm_z(rms_norm_of_heads(layer), d_v, layer.head_norm_weight);
  Linear<T> W_gate(by, layer, layer.W_gate, layer.b_gate);
  Gate<T> times_gate(layer);
  Rotary<T> rotate(layer);
  const PositionBias<T> bias(layer);
  const Stage x_q = has_step(layer, c_q) ? c_q : x, x_kv = has_step(layer, c_kv) ? c_kv : x;
  const bool norms_last = norms_after_rotation(layer);
  const TokenStep<T> turn_q{q_rope, rotate, norms_last ? q : q_norm},
      turn_k{k_rope, rotate, norms_last ? k : k_norm};
  const TokenStep<T> norm_of_q{q_norm, norm_q, norms_last ? q_rope : q},
      norm_of_k{k_norm, norm_k, norms_last ? k_rope : k};
  const Stage last_q = norms_last ? q_norm : q_rope, last_k = norms_last ? k_norm : k_rope;

  const Stage last = run.last_of_heads();
  const auto result_of_head = [&](Band<T>& band) {
    band.step(head_result, [&](auto y) { W_o.of_head(band.place(), band[last], y); }); // z W_o[h]
  };

  // clang-format off
  // Each token by itself. x: T, d_model. q: H, T, d_k. k: H_kv, S, d_k. v: H_kv, S, d_v
  run.together({{input, {{x, norm, x}}}});            // norm(X)
  compress(layer, run);                               // of latent attention alone
  run.together({{query, {{q, W_q, x_q},               // clip(x W_q + b_q)
                         norms_last ? turn_q : norm_of_q,   // norm(q), rotate(q):
                         norms_last ? norm_of_q : turn_q}}, // in this order, or the other
                {key, {{k, W_k, x_kv},                // clip(X_k W_k + b_k); latent: [c_kv W_k, k_pe]
                       norms_last ? turn_k : norm_of_k,
                       norms_last ? norm_of_k : turn_k}},
                {key, {{v, W_v, x_kv},                // clip(X_v W_v + b_v)
                       {v_norm, norm_v, v}}},         // norm(v)
                {query, {{gate, W_gate, x}}}});       // x W_gate + b_gate

  // What is attended to: past, current, learned extra, zero. k_all, v_all: H_kv, S_all, d
  run.append(k_all, layer.k_past, last_k, layer.k_extra);
  run.append(v_all, layer.v_past, v_norm, layer.v_extra);

  // Tokens meet: one head, some queries. scores … weights: H, T, S_all. head_out: H, T, d_v
  run.bands([&](Band<T>& band) {
    band.step(scores, [&](auto s) { band.product_with_keys(band[last_q], s); });      // q kᵀ
    band.each_row([&](Row<T>& row) { softmax(layer, bias, row); });                   // α
    band.step(head_out, [&](auto z) { band.product_with_values(band[weights], z); }); // α v
    if (last == head_out) result_of_head(band);
  });
  run.together({{query, {{head_norm, norm_z, head_out},   // norm(z)
                         {gated, times_gate, head_norm}}}}); // z · act(gate)
  if (last != head_out) run.bands(result_of_head);

  // The heads side by side, projected. concat: T, H · d_v. output: T, d_model
  run.together({{query, {{output, W_o, concat}}}});   // concat W_o + b_o
  // clang-format on
}

/// From mlp_x to mlp_out: one feed-forward for every token.
template <class T> void dense(const Layer& layer, const FeedForward& mlp, Schedule<T>& run) {
  using enum Stage;
  using enum Sequence;
  const Routines& by = run.around();
  Linear<T> W_in(by, layer, mlp.in), W_up(by, layer, mlp.up), W_out(by, layer, mlp.out);
  Activated<T> activated(mlp);
  // clang-format off
  // mlp_pre … mlp_act: T, d_ff
  run.together({{query, {{mlp_up, W_up, mlp_x}}}});     // gated: mlp_x W_up + b_up
  run.together({{query, {{mlp_pre, W_in, mlp_x},        // mlp_x W_in + b_in
                         {mlp_act, activated, mlp_pre}}}}); // act(mlp_pre), · mlp_up
  run.together({{query, {{mlp_out, W_out, mlp_act}}}}); // mlp_act W_out + b_out
  // clang-format on
}

/// The same of a mixture: n experts of E for each token, and the shared ones of all.
template <class T>
void mixture(const Layer& layer, const Mixture& mix, Stage into, Schedule<T>& run) {
  using enum Stage;
  using enum Sequence;
  const Routines& by = run.around();
  const FeedForward& shared = mix.shared;
  Linear<T> W_router(by, layer, mix.router);
  Linear<T> W_in(by, layer, shared.in), W_up(by, layer, shared.up), W_out(by, layer, shared.out);
  RouterScores<T> score(mix.routing);
  ChosenExperts<T> choose(mix.routing);
  ExpertWeights<T> weigh(mix.routing);
  Activated<T> activated(mix.form, mix.gated()), activated_shared(shared, shared_up);
  SharedGate<T> gate_shared(by, layer, mix.shared_gate);
  NormOf<T> norm_of_router(mix.router_norm), norm_of_experts(mix.experts_norm),
      norm_of_sum(mix.norm_of_sum), norm_of_shared(mix.norm_of_shared);
  ExpertSum<T> sum_of_chosen(mix);
  MixtureSum<T> sum(mix);
  const bool weighs_input = mix.routing.weighs_input;
  const Stage x_router = inputs_of(layer, router).front(),
              x_experts = inputs_of(layer, mlp_pre).front(),
              of_chosen = inputs_of(layer, mlp_out).front();
  // clang-format off
  run.together({{query, {{router_x, norm_of_router, into},       // norm(residual), or mlp_x
                         {experts_x, norm_of_experts, into}}}}); // norm(residual), or mlp_x
  run.together({{query, {{router, W_router, x_router},           // x W_router + b_router: T, E
                         {router_scores, score, router},         // softmax or σ
                         {experts, choose, router_scores},       // the n best: T, n
                         {expert_weights, weigh, experts}}}});   // their scores, renormalised
  // Of the chosen experts, side by side. mlp_pre … mlp_act: T, n · I. expert_out: T, n · d_model
  run.by_expert(mlp_up, x_experts, mix.up, weighs_input);        // gated: x W_up + b_up
  run.by_expert(mlp_pre, x_experts, mix.in, weighs_input);       // x W_in + b_in
  run.together({{query, {{mlp_act, activated, mlp_pre}}}});      // act(mlp_pre), · mlp_up
  run.by_expert(expert_out, mlp_act, mix.out);                   // mlp_act W_out + b_out
  run.together({{query, {{experts_sum, sum_of_chosen, expert_out},    // before a norm alone:
                         {experts_norm, norm_of_sum, experts_sum}}}}); // norm(Σ weight · expert_out)
  // Of the shared ones, side by side. shared_pre … shared_act: T, I_shared
  run.together({{query, {{shared_up, W_up, mlp_x}}}});
  run.together({{query, {{shared_pre, W_in, mlp_x},
                         {shared_act, activated_shared, shared_pre}}}});
  run.together({{query, {{shared_out, W_out, shared_act},
                         {shared_norm, norm_of_shared, shared_out}}}}); // norm(shared_out)
  run.together({{query, {{shared_gate, gate_shared, mlp_x}}}});         // σ(mlp_x W_shared_gate)
  run.together({{query, {{mlp_out, sum, of_chosen}}}});          // Σ weight · expert_out + shared_out
  // clang-format on
}

} // namespace

template <class T> void transformer_block(const Layer& layer, const Clip& clip, Schedule<T>& run) {
  using enum Stage;
  using enum Sequence;
  static const TransformerBlock alone;
  const TransformerBlock& block = layer.block ? *layer.block : alone;
  NormOf<T> post_attention_norm(block.post_attention_norm), pre_mlp_norm(block.pre_mlp_norm),
      post_mlp_norm(block.post_mlp_norm);
  AddTo<T> add_to_X(layer.X);
  SupplementOf<T> supplement(layer, block.supplement);
  BlockSum<T> sum(block);
  const Stage into_mlp = block.shape == BlockShape::parallel ? resid_pre : residual;

  run.show(resid_pre); // X, unchanged
  attention(layer, clip, run);

  // clang-format off
  // Each token by itself: T, d_model
  run.each_text([&] {
    run.together({{query, {{attn_add, post_attention_norm, output}, // norm(output)
                           {residual, add_to_X, attn_add},          // X + output
                           {mlp_x, pre_mlp_norm, into_mlp}}}});     // norm(residual)
    block.mixture ? mixture(layer, *block.mixture, into_mlp, run)   // Σ weight · expert(mlp_x)
                  : dense(layer, block.mlp, run);                   // act(mlp_x W_in) W_out
    run.show(layer_embed);                                          // of the tokens, unchanged
    run.together({{query, {{mlp_add, post_mlp_norm, mlp_out},       // norm(mlp_out)
                           {layer_add, supplement, mlp_add},        // of the layer's embedding
                           {resid_post, sum, mlp_add}}}});          // residual + mlp_out
  });
  // clang-format on
}

template <class T> void unembed(const Layer& layer, Schedule<T>& run) {
  using enum Stage;
  using enum Sequence;
  const ModelHead& head = layer.ends->head;
  NormOf<T> norm(layer.ends->final);
  Linear<T> W_dense(run.around(), layer, head.dense);
  Activated<T> activated(head);
  Unembedding<T> W_U(run.around(), layer, head);

  run.show(embed); // unchanged
  run.each_text([&] {
    run.together({{query, {{final, norm, resid_post}}}}); // norm(resid_post)
    // A masked model's head begins as a feed-forward does: norm(act(final W + b))
    run.together({{query, {{mlp_pre, W_dense, final}, {mlp_act, activated, mlp_pre}}}});
    run.together({{query, {{logits, W_U, head.dense.present() ? mlp_act : final}}}}); // … W_U + b_U
  });
}

template void transformer_block(const Layer&, const Clip&, Schedule<float>&);
template void transformer_block(const Layer&, const Clip&, Schedule<double>&);
template void unembed(const Layer&, Schedule<float>&);
template void unembed(const Layer&, Schedule<double>&);

} // namespace mha
