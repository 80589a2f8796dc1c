#include <mha/forward/block.hpp>

#include <mha/forward/add.hpp>
#include <mha/forward/feed_forward.hpp>
#include <mha/forward/head.hpp>
#include <mha/forward/norm.hpp>
#include <mha/kernels/rows.hpp>
#include <mha/schedule/memory.hpp>
#include <mha/schedule/stream.hpp>
#include <mha/system/clock.hpp>

#include <algorithm>

// x is the stream before the layer (resid_pre), A attention's result, F the feed-forward's, n
// norms:
//
//   pre            residual = x + A(n1 x)             resid_post = residual + F(n2 residual)
//   parallel                                          resid_post = x + A(n1 x) + F(n2 x)
//   sandwich       residual = x + n2 A(n1 x)          resid_post = residual + n4 F(n3 residual)
//   post           residual = x + A(x)                resid_post = n2(r + F(r)), r = n1 residual
//   post, inside   residual = x + n1 A(x)             resid_post = residual + n2 F(residual)
//
// A norm that a block lacks hands on, so that these are one sequence of steps.

namespace mha {

namespace {

/// mlp_out = act(x W_in + b_in) W_out + b_out; gated: act(x W_in) · (x W_up).
template <class T> void feed_forward(const FeedForward& mlp, Stream<T>& run) {
  using enum Stage;
  if (!mlp.present()) return;
  const Norm inner = in_precision(mlp.inner, run.dtype());
  const Tensor bias = mlp.product_bias.empty() ? Tensor() : convert(mlp.product_bias, run.dtype());
  run.product(mlp_pre, mlp_x, mlp.in);
  run.product(mlp_up, mlp_x, mlp.up);
  run.rows(mlp_act, [&](const auto& r) {
    activate<T>(mlp.activation, r[mlp_pre], r.to);
    if (mlp.gated())
      for (std::size_t t = 0; t < r.count; ++t)
        for (std::size_t i = 0; i < r.to.cols; ++i) r.to.row(t)[i] *= r[mlp_up].row(t)[i];
    if (!bias.empty())
      for (std::size_t t = 0; t < r.count; ++t)
        row_add(r.to.row(t), bias.as<T>().data(), r.to.cols);
    norm_rows<T>(inner, r.to, r.to);
  });
  run.product(mlp_out, mlp_act, mlp.out);
}

/// From attention's output to what the layer hands on.
template <class T> void around_attention(const TransformerBlock& block, Stream<T>& run) {
  using enum Stage;
  const Norm post_attention_norm = in_precision(block.post_attention_norm, run.dtype());
  const Norm pre_mlp_norm = in_precision(block.pre_mlp_norm, run.dtype());
  const Norm post_mlp_norm = in_precision(block.post_mlp_norm, run.dtype());
  const Norm post_block_norm = in_precision(block.post_block_norm, run.dtype());
  const bool parallel = block.shape == BlockShape::parallel;

  run.show(resid_pre); // X, as it is
  run.rows(attn_add, [&](const auto& r) { norm_rows<T>(post_attention_norm, r[output], r.to); });
  run.rows(residual, [&](const auto& r) { add_rows<T>(r[resid_pre], r[attn_add], r.to); });
  run.rows(mlp_x, [&](const auto& r) {
    norm_rows<T>(pre_mlp_norm, parallel ? r[resid_pre] : r[residual], r.to);
  });
  feed_forward<T>(block.mlp, run);
  run.rows(mlp_add, [&](const auto& r) { norm_rows<T>(post_mlp_norm, r[mlp_out], r.to); });
  run.rows(resid_post, [&](const auto& r) {
    switch (block.shape) {
    case BlockShape::attention_only:
      return add_rows<T>(r[resid_pre], r[attn_add], r.to);
    case BlockShape::parallel:
      add_rows<T>(r[resid_pre], r[attn_add], r.to);
      return add_rows<T>(r.to, r[mlp_add], r.to);
    case BlockShape::post:
      add_rows<T>(r[mlp_x], r[mlp_add], r.to);
      return norm_rows<T>(post_block_norm, r.to, r.to);
    default:
      return add_rows<T>(r[residual], r[mlp_add], r.to);
    }
  });
}

/// Hands attention's stages on, and keeps its output for what follows.
class KeepOutput : public Observer {
public:
  KeepOutput(Observer& observer, const Layer& layer, const StageSet& wanted, bool keep)
      : observer_(observer), wanted_(wanted), keep_(keep), items_(layer, Dim::T) {
    if (keep) output_ = Tensor::uninitialised(layer.dtype, {items_.all(), layer.dims.d_out});
  }
  StageSet wants() const override {
    StageSet all = wanted_;
    if (keep_) all.set(index_of(Stage::output));
    return all;
  }
  void observe(const Slice& block) override {
    if (contains(wanted_, block.stage)) observer_.observe(block);
    if (!keep_ || block.stage != Stage::output) return;
    const std::size_t width = output_.shape()[1], element = size_of(output_.dtype());
    const std::size_t first = items_.first(block.batch) + block.token;
    for (std::size_t t = 0; t < block.values.shape[0]; ++t)
      std::copy_n(block.values.data +
                      static_cast<std::size_t>(block.values.strides[0]) * t * element,
                  width * element, output_.raw_mutable() + (first + t) * width * element);
  }
  const Tensor& output() const { return output_; }

private:
  Observer& observer_;
  StageSet wanted_;
  bool keep_;
  ItemRows items_;
  Tensor output_; ///< the items' rows, d_model
};

StageSet attention_stages() {
  StageSet set;
  for (const StageInfo& info : stages())
    if (!is_stream(info.stage) && info.stage != Stage::residual) set.set(index_of(info.stage));
  return set;
}

template <class T>
PhaseTimes compute_with(Layer layer, const Plan& plan, Observer& observer, std::size_t threads) {
  PhaseTimes seconds;
  const StageSet of_attention = attention_stages();
  Plan attention = plan;
  attention.wanted &= of_attention, attention.computed &= of_attention;
  attention.needed &= of_attention | layer.given_set;
  const bool handed_on = contains(plan.computed, Stage::output);
  KeepOutput kept(observer, layer, attention.wanted, handed_on);
  if (attention.needed.any()) {
    attention.wanted = kept.wants();
    Layer alone = layer;
    alone.block = nullptr;
    for (Tensor* weight : {&layer.W_q, &layer.W_k, &layer.W_v, &layer.W_o}) *weight = {};
    seconds = compute_attention(std::move(alone), attention, kept, threads);
  }
  seconds.around = seconds_of([&] {
    Stream<T> run(layer, plan, observer, threads, kept.output());
    run.each_run([&] {
      if (layer.block) around_attention<T>(*layer.block, run);
      if (layer.ends) end_model<T>(*layer.ends, run);
    });
    for (std::size_t i = 0; i < stage_count; ++i) seconds.stages[i] += run.seconds()[i];
  });
  return seconds;
}

} // namespace

PhaseTimes compute_block(Layer layer, const Plan& plan, Observer& observer, std::size_t threads) {
  return layer.dtype == DType::f64 ? compute_with<double>(std::move(layer), plan, observer, threads)
                                   : compute_with<float>(std::move(layer), plan, observer, threads);
}

} // namespace mha
