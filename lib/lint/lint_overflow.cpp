#include <mha/lint/lint.hpp>

#include <mha/layer/graph.hpp>
#include <mha/observe/compute.hpp>
#include <mha/observe/overflow.hpp>
#include <mha/observe/summary.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace mha {

namespace {

/// The largest |value|; infinite if one is not finite.
double largest(const Tensor& tensor, double otherwise) {
  if (tensor.empty()) return otherwise;
  const Summary sum = summary_of(tensor);
  if (sum.finite < sum.count) return std::numeric_limits<double>::infinity();
  return sum.count == 0 ? 0 : std::max(std::abs(sum.min), std::abs(sum.max));
}

/// An upper bound of a projection's numbers.
double bound_of(const Layer& layer, Stage stage, const Tensor& x, const Tensor& W,
                const Tensor& b) {
  if (layer.has_given(stage)) return largest(layer.given[index_of(stage)], 0);
  const double width = W.empty() ? 1 : static_cast<double>(W.shape()[0]);
  return width * largest(x, 0) * largest(W, 1) + largest(b, 0);
}

/// Whether the inputs' sizes rule out that a score leaves float32's range, or float64's.
bool cannot_overflow(const Layer& layer) {
  // A norm's numbers are at most √d times its weights; rotations and head norms change the bounds.
  if (layer.settings.input_norm != InputNorm::none || !layer.q_norm_weight.empty() ||
      !layer.k_norm_weight.empty() || !layer.k_past.empty() || !layer.sinks.empty())
    return false;
  const double q = bound_of(layer, Stage::q, layer.X, layer.W_q, layer.b_q),
               k = bound_of(layer, Stage::k, layer.X_k.empty() ? layer.X : layer.X_k, layer.W_k,
                            layer.b_k);
  const double scores = static_cast<double>(std::max<std::size_t>(layer.dims.d_k, 1)) * q * k * 2;
  const double most = layer.dtype == DType::f64 ? std::numeric_limits<double>::max()
                                                : std::numeric_limits<float>::max();
  const double scale = std::max(1.0, std::abs(layer.scale()));
  return std::isfinite(scores) && scores * scale < most / 4;
}

} // namespace

Message overflow_of(const Layer& layer, std::size_t threads) {
  if (layer.ends || layer.has_given(Stage::weights) ||
      !contains(available_stages(layer), Stage::row_sum))
    return {};
  if (layer.settings.softmax != Softmax::naive && cannot_overflow(layer)) return {};
  OverflowWatch watch(layer);
  compute(layer, make_plan(layer, watch.wants()), watch, threads);
  return watch.report(layer);
}

} // namespace mha
