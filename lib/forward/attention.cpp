#include <mha/forward/attention.hpp>

#include <mha/forward/add.hpp>
#include <mha/forward/feed_forward.hpp>
#include <mha/forward/head.hpp>
#include <mha/forward/latent.hpp>
#include <mha/forward/norm.hpp>
#include <mha/forward/rotary.hpp>
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
  HeadNorm<T> norm_q(layer, layer.q_norm_weight, layer.q_norm_bias);
  HeadNorm<T> norm_k(layer, layer.k_norm_weight, layer.k_norm_bias);
  Rotary<T> rotate(layer);
  const PositionBias<T> bias(layer);
  const Stage x_q = has_step(layer, c_q) ? c_q : x, x_kv = has_step(layer, c_kv) ? c_kv : x;

  // clang-format off
  // Each token by itself. x: T, d_model. q: H, T, d_k. k: H_kv, S, d_k. v: H_kv, S, d_v
  run.together({{input, {{x, norm, x}}}});            // norm(X)
  compress(layer, run);                               // of latent attention alone
  run.together({{query, {{q, W_q, x_q},               // clip(x W_q + b_q)
                         {q_norm, norm_q, q},         // norm(q)
                         {q_rope, rotate, q_norm}}},  // rotate(q)
                {key, {{k, W_k, x_kv},                // clip(X_k W_k + b_k); latent: [c_kv W_k, k_pe]
                       {k_norm, norm_k, k},           // norm(k)
                       {k_rope, rotate, k_norm}}},    // rotate(k)
                {key, {{v, W_v, x_kv}}}});            // clip(X_v W_v + b_v)

  // What is attended to: past, current, learned extra, zero. k_all, v_all: H_kv, S_all, d
  run.append(k_all, layer.k_past, k_rope, layer.k_extra);
  run.append(v_all, layer.v_past, v, layer.v_extra);

  // Tokens meet: one head, some queries. scores … weights: H, T, S_all. head_out: H, T, d_v
  run.bands([&](Band<T>& band) {
    band.step(scores, [&](auto s) { band.product_with_keys(band[q_rope], s); });      // q kᵀ
    band.each_row([&](Row<T>& row) { softmax(layer, bias, row); });                   // α
    band.step(head_out, [&](auto z) { band.product_with_values(band[weights], z); }); // α v
    band.step(head_result, [&](auto y) { W_o.of_head(band.place(), band[head_out], y); }); // z W_o[h]
  });

  // The heads side by side, projected. concat: T, H · d_v. output: T, d_model
  run.together({{query, {{output, W_o, concat}}}});   // concat W_o + b_o
  // clang-format on
}

} // namespace

template <class T> void transformer_block(const Layer& layer, const Clip& clip, Schedule<T>& run) {
  using enum Stage;
  using enum Sequence;
  static const TransformerBlock alone;
  const TransformerBlock& block = layer.block ? *layer.block : alone;
  const FeedForward& mlp = block.mlp;
  const Routines& by = run.around();
  NormOf<T> post_attention_norm(block.post_attention_norm), pre_mlp_norm(block.pre_mlp_norm),
      post_mlp_norm(block.post_mlp_norm);
  AddTo<T> add_to_X(layer.X);
  Linear<T> W_in(by, layer, mlp.in), W_up(by, layer, mlp.up), W_out(by, layer, mlp.out);
  Activated<T> activated(mlp);
  BlockSum<T> sum(block);
  const Stage into_mlp = block.shape == BlockShape::parallel ? resid_pre : residual;

  run.show(resid_pre); // X, unchanged
  attention(layer, clip, run);

  // clang-format off
  // Each token by itself. mlp_pre … mlp_act: T, d_ff. The others: T, d_model
  run.each_text([&] {
    run.together({{query, {{attn_add, post_attention_norm, output}, // norm(output)
                           {residual, add_to_X, attn_add},          // X + output
                           {mlp_x, pre_mlp_norm, into_mlp}}}});     // norm(residual)
    run.together({{query, {{mlp_up, W_up, mlp_x}}}});               // gated: mlp_x W_up + b_up
    run.together({{query, {{mlp_pre, W_in, mlp_x},                  // mlp_x W_in + b_in
                           {mlp_act, activated, mlp_pre}}}});       // act(mlp_pre), · mlp_up
    run.together({{query, {{mlp_out, W_out, mlp_act}}}});           // mlp_act W_out + b_out
    run.together({{query, {{mlp_add, post_mlp_norm, mlp_out},       // norm(mlp_out)
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
