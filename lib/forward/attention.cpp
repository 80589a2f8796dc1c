#include <mha/forward/attention.hpp>

#include <mha/forward/add.hpp>
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
  using Rows = TokenRows<T>;
  Linear<T> W_q = run.linear(layer.W_q, layer.b_q), W_k = run.linear(layer.W_k, layer.b_k);
  Linear<T> W_v = run.linear(layer.W_v, layer.b_v), W_o = run.linear(layer.W_o, layer.b_o);
  Rotary<T> rotary(layer);

  // Each token by itself. x: B, T, d_model
  run.together({{Sequence::input,
                 {{x, Needs::row, nullptr, // norm(X)
                   [&](const Rows& r) { norm_input<T>(layer, r.of(layer.X), r[x]); }}}}});

  // q: B, H, T, d_k. k: B, H_kv, S, d_k. v: B, H_kv, S, d_v
  run.together({{Sequence::query,
                 {{q, Needs::head, &W_q, // x W_q + b_q
                   [&](const Rows& r) { W_q(r[x], r.columns(), r[q]); }},
                  {q_norm, needs_of_norm(layer.q_norm_weight, layer.dims.d_k), nullptr, // norm(q)
                   [&](const Rows& r) {
                     norm_heads<T>(layer, r[q], layer.q_norm_weight, r.heads(), r[q_norm]);
                   }},
                  {q_rope, Needs::head, &rotary, // rotate(q)
                   [&](const Rows& r) { rotary(r[q_norm], r.first(), r.heads(), r[q_rope]); }}}},
                {Sequence::key,
                 {{k, Needs::head, &W_k, // X_k W_k + b_k
                   [&](const Rows& r) { W_k(r.input(layer.X_k), r.columns(), r[k]); }},
                  {k_norm, needs_of_norm(layer.k_norm_weight, layer.dims.d_k), nullptr, // norm(k)
                   [&](const Rows& r) {
                     norm_heads<T>(layer, r[k], layer.k_norm_weight, r.heads(), r[k_norm]);
                   }},
                  {k_rope, Needs::head, &rotary, // rotate(k)
                   [&](const Rows& r) { rotary(r[k_norm], r.first(), r.heads(), r[k_rope]); }}}},
                {Sequence::key,
                 {{v, Needs::head, &W_v, // X_v W_v + b_v
                   [&](const Rows& r) { W_v(r.input(layer.X_v), r.columns(), r[v]); }}}}});

  // What is attended to: past, current, learned extra, zero. k_all, v_all: B, H_kv, S_all, d
  run.append(k_all, layer.k_past, k_rope, layer.k_extra);
  run.append(v_all, layer.v_past, v, layer.v_extra);

  // Tokens meet: one head, some queries. scores … weights: B, H, T, S_all. head_out: B, H, T, d_v
  const PositionBias<T> bias(layer);
  run.bands([&](Band<T>& band) {
    band.step(scores, [&](auto s) { band.product_with_keys(band[q_rope], s); });      // q kᵀ
    band.each_row([&](Row<T>& row) { softmax(layer, bias, row); });                   // α
    band.step(head_out, [&](auto z) { band.product_with_values(band[weights], z); }); // α v
    band.step(head_result,
              [&](auto y) { W_o.rows_of_head(band[head_out], band.head(), y); }); // z W_o[h]
  });

  // The heads side by side, projected. concat: B, T, H · d_v. output: B, T, d_model
  run.together({{Sequence::query,
                 {{output, Needs::head, &W_o, // concat W_o + b_o
                   [&](const Rows& r) { W_o(r[concat], r.columns(), r[output]); }},
                  {residual, Needs::row, nullptr, // X + output
                   [&](const Rows& r) { add<T>(r.of(layer.X), r[output], r[residual]); }}}}});
}

template <class T>
PhaseTimes run_attention(Layer layer, const Plan& plan, Observer& observer, std::size_t threads) {
  Schedule<T> run(std::move(layer), plan, observer, threads);
  attention(run.layer(), run);
  return run.times();
}

} // namespace

PhaseTimes compute(Layer layer, const Plan& plan, Observer& observer, std::size_t threads) {
  return layer.dtype == DType::f64
             ? run_attention<double>(std::move(layer), plan, observer, threads)
             : run_attention<float>(std::move(layer), plan, observer, threads);
}

} // namespace mha
