#include <mha/forward/attention.hpp>

#include <mha/forward/add.hpp>
#include <mha/forward/block.hpp>
#include <mha/forward/norm.hpp>
#include <mha/forward/rotary.hpp>
#include <mha/forward/softmax.hpp>
#include <mha/schedule/schedule.hpp>

// B batches, T queries, S keys, H heads over H_kv key/value heads, widths d_model, d_k, d_v. When,
// where and in whose memory is the schedule's (schedule/), how fast the kernels' (kernels/).

namespace mha {

namespace {

template <class T> void attention(const Layer& layer, Schedule<T>& run) {
  using enum Stage;
  using enum Sequence;
  const Routine by = run.projecting();
  InputNormOf<T> norm(layer);
  Linear<T> W_q(by, layer.W_q, layer.b_q), W_k(by, layer.W_k, layer.b_k, &layer.X_k);
  Linear<T> W_v(by, layer.W_v, layer.b_v, &layer.X_v), W_o(by, layer.W_o, layer.b_o);
  HeadNorm<T> norm_q(layer, layer.q_norm_weight), norm_k(layer, layer.k_norm_weight);
  Rotary<T> rotate(layer);
  const PositionBias<T> bias(layer);
  AddTo<T> add_to_X(layer.X);

  // clang-format off
  // Each token by itself. x: T, d_model. q: H, T, d_k. k: H_kv, S, d_k. v: H_kv, S, d_v
  run.together({{input, {{x, norm, x}}}});            // norm(X)
  run.together({{query, {{q, W_q, x},                 // x W_q + b_q
                         {q_norm, norm_q, q},         // norm(q)
                         {q_rope, rotate, q_norm}}},  // rotate(q)
                {key, {{k, W_k, x},                   // X_k W_k + b_k
                       {k_norm, norm_k, k},           // norm(k)
                       {k_rope, rotate, k_norm}}},    // rotate(k)
                {key, {{v, W_v, x}}}});               // X_v W_v + b_v

  // What is attended to: past, current, learned extra, zero. k_all, v_all: H_kv, S_all, d
  run.append(k_all, layer.k_past, k_rope, layer.k_extra);
  run.append(v_all, layer.v_past, v, layer.v_extra);

  // Tokens meet: one head, some queries. scores … weights: H, T, S_all. head_out: H, T, d_v
  run.bands([&](Band<T>& band) {
    band.step(scores, [&](auto s) { band.product_with_keys(band[q_rope], s); });      // q kᵀ
    band.each_row([&](Row<T>& row) { softmax(layer, bias, row); });                   // α
    band.step(head_out, [&](auto z) { band.product_with_values(band[weights], z); }); // α v
    band.step(head_result, [&](auto y) { W_o.of_head(band.head(), band[head_out], y); }); // z W_o[h]
  });

  // The heads side by side, projected. concat: T, H · d_v. output, residual: T, d_model
  run.together({{query, {{output, W_o, concat},            // concat W_o + b_o
                         {residual, add_to_X, attn_add}}}}); // X + output
  // clang-format on
}

template <class T>
PhaseTimes run_attention(Layer layer, const Plan& plan, Observer& observer, std::size_t threads) {
  Schedule<T> run(std::move(layer), plan, observer, threads);
  attention(run.layer(), run);
  return run.times();
}

} // namespace

PhaseTimes compute(Layer layer, const Plan& plan, Observer& observer, std::size_t threads) {
  require_plan_of(layer, plan);
  if (layer.block || layer.ends) return compute_block(std::move(layer), plan, observer, threads);
  return layer.dtype == DType::f64
             ? run_attention<double>(std::move(layer), plan, observer, threads)
             : run_attention<float>(std::move(layer), plan, observer, threads);
}

} // namespace mha
