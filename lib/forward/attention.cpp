#include <mha/forward/attention.hpp>

#include <mha/forward/add.hpp>
#include <mha/forward/block.hpp>
#include <mha/forward/latent.hpp>
#include <mha/forward/norm.hpp>
#include <mha/forward/rotary.hpp>
#include <mha/forward/softmax.hpp>
#include <mha/schedule/padding.hpp>
#include <mha/schedule/pass_observer.hpp>
#include <mha/schedule/patching.hpp>
#include <mha/schedule/schedule.hpp>

// B batches, T queries, S keys, H heads over H_kv key/value heads, widths d_model, d_k, d_v. When,
// where and in whose memory is the schedule's (schedule/), how fast the kernels' (kernels/).

namespace mha {

namespace {

template <class T> void attention(const Layer& layer, const Clip& clip, Schedule<T>& run) {
  using enum Stage;
  using enum Sequence;
  const Routines& by = run.projecting();
  InputNormOf<T> norm(layer);
  Compressed<T> W_c_q(by, layer, layer.W_c_q, layer.b_c_q, layer.c_q_norm_weight);
  Compressed<T> W_c_kv(by, layer, layer.W_c_kv, layer.b_c_kv, layer.c_kv_norm_weight);
  Linear<T> W_k_pe(by, layer, layer.W_k_pe, layer.b_k_pe);
  Linear<T> W_q(by, layer, layer.W_q, layer.b_q, nullptr, clip.q);
  Linear<T> W_k_alone(by, layer, layer.W_k, layer.b_k, &layer.X_k, clip.k);
  JoinedKeys<T> W_k(layer, W_k_alone, clip.k);
  Linear<T> W_v(by, layer, layer.W_v, layer.b_v, &layer.X_v, clip.v),
      W_o(by, layer, layer.W_o, layer.b_o);
  HeadNorm<T> norm_q(layer, layer.q_norm_weight, layer.q_norm_bias);
  HeadNorm<T> norm_k(layer, layer.k_norm_weight, layer.k_norm_bias);
  Rotary<T> rotate(layer);
  const PositionBias<T> bias(layer);
  AddTo<T> add_to_X(layer.X);

  // clang-format off
  // Each token by itself. x: T, d_model. q: H, T, d_k. k: H_kv, S, d_k. v: H_kv, S, d_v
  run.together({{input, {{x, norm, x}}}});            // norm(X)
  // Latent attention: c_q: T, r_q. c_kv: T, r_kv. k_pe: T, d_pe. Without it, all three are x
  run.together({{query, {{c_q, W_c_q, x}}},           // norm(x W_c_q)
                {input, {{c_kv, W_c_kv, x}}},         // norm(x W_c_kv)
                {input, {{k_pe, W_k_pe, x}}}});       // x W_k_pe
  run.together({{query, {{q, W_q, c_q},               // clip(x W_q + b_q)
                         {q_norm, norm_q, q},         // norm(q)
                         {q_rope, rotate, q_norm}}},  // rotate(q)
                {key, {{k, W_k, c_kv},                // clip(X_k W_k + b_k); latent: [c_kv W_k, k_pe]
                       {k_norm, norm_k, k},           // norm(k)
                       {k_rope, rotate, k_norm}}},    // rotate(k)
                {key, {{v, W_v, c_kv}}}});            // clip(X_v W_v + b_v)

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

  // The heads side by side, projected. concat: T, H · d_v. output, residual: T, d_model
  run.together({{query, {{output, W_o, concat},            // concat W_o + b_o
                         {residual, add_to_X, attn_add}}}}); // X + output
  // clang-format on
}

template <class T>
PhaseTimes run_attention(Layer layer, const Plan& plan, Observer& observer, std::size_t threads) {
  const Clip clip =
      clip_of(layer); // of the whole layer: the schedule lets go of what no step reads
  Schedule<T> run(std::move(layer), plan, observer, threads);
  attention(run.layer(), clip, run);
  return run.times();
}

} // namespace

PhaseTimes compute_attention(Layer layer, const Plan& plan, Observer& observer,
                             std::size_t threads) {
  return layer.dtype == DType::f64
             ? run_attention<double>(std::move(layer), plan, observer, threads)
             : run_attention<float>(std::move(layer), plan, observer, threads);
}

PhaseTimes compute(Layer layer, const Plan& plan, Observer& observer, std::size_t threads) {
  require_plan_of(layer, plan);
  PassObserver pass(layer, plan, observer);
  const StageSet& needed = pass.plan().needed;
  for (const StagePatch& patch : layer.patches.list)
    if (contains(needed, patch.stage) ||
        (patch.stage == Stage::concat && contains(needed, Stage::head_out)))
      *patch.is_read = true;
  layer = with_patched_inputs(std::move(layer));
  show_padding(layer, pass.plan(), pass, threads);
  return layer.block || layer.ends
             ? compute_block(std::move(layer), pass.plan(), pass, threads)
             : compute_attention(std::move(layer), pass.plan(), pass, threads);
}

} // namespace mha
