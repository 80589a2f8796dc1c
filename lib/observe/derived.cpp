#include <mha/observe/compute.hpp>

#include <mha/kernels/dense.hpp>
#include <mha/layer/graph.hpp>
#include <mha/observe/several.hpp>
#include <mha/observe/trace.hpp>
#include <mha/system/limits.hpp>
#include <mha/system/parallel.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace mha {

namespace {

/// One batch item's weights, H × T × S; rows from `length` on are padding.
struct ItemWeights {
  const Tensor& weights;
  std::size_t item, H, T, S, length;
  bool nan_is_masked; ///< a row with only NaN may attend to nothing

  double at(std::size_t h, std::size_t t, std::size_t s) const {
    return value_at(weights, ((item * H + h) * T + t) * S + s);
  }
};

using Numbers = std::vector<double>;

Numbers mean_over_heads(const ItemWeights& of) {
  Numbers mean(of.T * of.S);
  for (std::size_t t = 0; t < of.length; ++t)
    for (std::size_t h = 0; h < of.H; ++h)
      for (std::size_t s = 0; s < of.S; ++s)
        mean[t * of.S + s] += of.at(h, t, s) / static_cast<double>(of.H);
  return mean;
}

/// v_s W_o[h] of one item and head, S × d_out; without W_o it is v_s.
DenseMatrix projected_values(const Layer& layer, const Tensor& v, std::size_t item, std::size_t h) {
  const Dims& dims = layer.dims;
  const std::size_t S = dims.S_all, d_v = dims.d_v, kv = kv_head_of(layer, h);
  DenseMatrix values(S, d_v);
  for (std::size_t i = 0; i < values.numbers.size(); ++i)
    values.numbers[i] = value_at(v, (item * dims.H_kv + kv) * S * d_v + i);
  if (layer.W_o.empty()) return values;
  const std::size_t out = layer.W_o.shape()[1];
  DenseMatrix W_o(d_v, out);
  for (std::size_t i = 0; i < W_o.numbers.size(); ++i)
    W_o.numbers[i] = value_at(layer.W_o, h * d_v * out + i);
  return product(values.view(), W_o.view());
}

Numbers norms_of_values(const Layer& layer, const Tensor& v, const ItemWeights& of,
                        std::size_t threads) {
  Numbers norms(of.H * of.T * of.S);
  parallel_for(of.H, threads, [&](std::size_t h) {
    const DenseMatrix projected = projected_values(layer, v, of.item, h);
    for (std::size_t s = 0; s < of.S; ++s) {
      const double norm = frobenius_norm(projected.view().rows_from(s, 1));
      for (std::size_t t = 0; t < of.length; ++t)
        norms[(h * of.T + t) * of.S + s] = std::abs(of.at(h, t, s)) * norm;
    }
  });
  return norms;
}

Numbers norms_of_sums(const Layer& layer, const Tensor& v, const ItemWeights& of,
                      std::size_t threads) {
  std::vector<DenseMatrix> projected(of.H);
  parallel_for(of.H, threads,
               [&](std::size_t h) { projected[h] = projected_values(layer, v, of.item, h); });
  // Without W_o the heads are concatenated, not added: the norm is over all of them.
  const bool concatenated = layer.W_o.empty();
  const std::size_t width = projected[0].cols;
  Numbers norms(of.T * of.S);
  parallel_for(of.length, threads, [&](std::size_t t) {
    Numbers sum(concatenated ? width * of.H : width);
    for (std::size_t s = 0; s < of.S; ++s) {
      std::ranges::fill(sum, 0);
      for (std::size_t h = 0; h < of.H; ++h) {
        const double alpha = of.at(h, t, s);
        if (alpha == 0) continue;
        const double* const row = projected[h].row(s);
        double* const to = sum.data() + (concatenated ? h * width : 0);
        for (std::size_t i = 0; i < width; ++i) to[i] += alpha * row[i];
      }
      double squares = 0;
      for (const double x : sum) squares += x * x;
      norms[t * of.S + s] = std::sqrt(squares);
    }
  });
  return norms;
}

/// The rollout up to the layer before; I before the first layer.
Numbers rollout_before(const Layer& layer, const ItemWeights& of) {
  Numbers before(of.T * of.T);
  if (layer.rollout_before.empty())
    for (std::size_t t = 0; t < of.length; ++t) before[t * of.T + t] = 1;
  else
    std::ranges::copy(
        layer.rollout_before.as<double>().subspan(of.item * before.size(), before.size()),
        before.begin());
  return before;
}

/// rownorm(mean + I) before, for the rows of the text.
Numbers rolled_out(const ItemWeights& of, const Numbers& before) {
  Numbers step = mean_over_heads(of);
  const std::size_t T = of.T;
  for (std::size_t t = 0; t < of.length; ++t) {
    double sum = 1;
    for (std::size_t s = 0; s < T; ++s) sum += step[t * T + s];
    step[t * T + t] += 1;
    for (std::size_t s = 0; s < T; ++s) step[t * T + s] /= sum;
  }
  Numbers rolled(T * T);
  for (std::size_t t = 0; t < of.length; ++t)
    for (std::size_t k = 0; k < of.length; ++k)
      for (std::size_t s = 0; s < of.length; ++s)
        rolled[t * T + s] += step[t * T + k] * before[k * T + s];
  return rolled;
}

/// The sum of a row's weights; 0 if it attends to nothing. Any other row with a NaN sums to NaN,
/// which its derived stages inherit.
double row_sum(const ItemWeights& of, std::size_t h, std::size_t t) {
  double sum = 0;
  bool all_nan = true;
  for (std::size_t s = 0; s < of.S; ++s) {
    const double alpha = of.at(h, t, s);
    sum += alpha, all_nan = all_nan && std::isnan(alpha);
  }
  return all_nan && of.nan_is_masked ? 0 : sum;
}

Numbers received_of(const ItemWeights& of) {
  Numbers received(of.H * of.S);
  for (std::size_t h = 0; h < of.H; ++h) {
    double rows = 0;
    for (std::size_t t = 0; t < of.length; ++t) {
      if (row_sum(of, h, t) <= 0) continue;
      ++rows;
      for (std::size_t s = 0; s < of.S; ++s) received[h * of.S + s] += of.at(h, t, s);
    }
    for (std::size_t s = 0; s < of.S && rows > 0; ++s) received[h * of.S + s] /= rows;
  }
  return received;
}

/// One term of KL(p ‖ m) in bits, m = (p + q) / 2.
double kl_term_to_mean(double p, double q) {
  return p > 0 ? p * std::log2(2 * p / (p + q)) : 0;
}

Numbers divergences_of(const ItemWeights& of, std::size_t threads) {
  Numbers to(of.H * of.H);
  parallel_for(of.H, threads, [&](std::size_t a) {
    for (std::size_t b = a + 1; b < of.H; ++b) {
      double sum = 0, rows = 0;
      for (std::size_t t = 0; t < of.length; ++t) {
        const double of_a = row_sum(of, a, t), of_b = row_sum(of, b, t);
        if (of_a <= 0 || of_b <= 0) continue;
        ++rows;
        if (std::isnan(of_a) || std::isnan(of_b)) sum = std::numeric_limits<double>::quiet_NaN();
        for (std::size_t s = 0; s < of.S; ++s) {
          const double p = of.at(a, t, s) / of_a, q = of.at(b, t, s) / of_b;
          sum += (kl_term_to_mean(p, q) + kl_term_to_mean(q, p)) / 2;
        }
      }
      const double mean = rows > 0 ? std::max(sum / rows, 0.0) : 0; // rounding may be below 0
      to[a * of.H + b] = to[b * of.H + a] = mean;
    }
  });
  return to;
}

/// The weights of a token's chosen experts, each in its expert's column.
Numbers routing_of(const Layer& layer, const Trace& traced, std::size_t item) {
  const Dims& dims = layer.dims;
  const Tensor &experts = traced.value(Stage::experts),
               &weights = traced.value(Stage::expert_weights);
  Numbers routing(dims.T * dims.E);
  for (std::size_t t = 0; t < layer.length_of(item); ++t)
    for (std::size_t j = 0; j < dims.n; ++j) {
      const std::size_t at = (item * dims.T + t) * dims.n + j;
      routing[t * dims.E + static_cast<std::size_t>(value_at(experts, at))] = value_at(weights, at);
    }
  return routing;
}

Numbers numbers_of(Stage stage, const Layer& layer, const Tensor& v, const ItemWeights& of,
                   std::size_t threads) {
  switch (stage) {
  case Stage::weights_mean:
    return mean_over_heads(of);
  case Stage::value_norms:
    return norms_of_values(layer, v, of, threads);
  case Stage::value_norms_sum:
    return norms_of_sums(layer, v, of, threads);
  case Stage::rollout:
    return rolled_out(of, rollout_before(layer, of));
  case Stage::received:
    return received_of(of);
  default:
    return divergences_of(of, threads);
  }
}

/// Shows the numbers of one batch item: a map by head, like a map's blocks; numbers of heads in one
/// piece, which the text's length does not limit.
void show(const Layer& layer, Stage stage, std::size_t item, const Numbers& numbers,
          Observer& observer) {
  Shape shape;
  for (const Dim letter : info_of(stage).letters) shape.push_back(layer.dims.size_of(letter));
  const bool of_heads = axis_of(info_of(stage).letters[0]) == Axis::head;
  const std::size_t pieces = shape.size() == 3 ? std::exchange(shape[0], 1) : 1;
  const std::size_t count = count_of(shape);
  Slice piece;
  piece.stage = stage, piece.batch = item;
  if (!layer.lengths.empty() && (!of_heads || shape.size() == 3))
    piece.length = layer.lengths[item];
  for (piece.head = 0; count > 0 && piece.head < pieces; ++piece.head) {
    const Tensor values =
        Tensor::of<double>(shape, std::span(numbers).subspan(piece.head * count, count));
    piece.values = view_of(values);
    observer.observe(piece);
  }
}

/// Shows another observer only the steps that it wants.
class Steps : public Observer {
public:
  explicit Steps(Observer& observer, const StageSet& wanted)
      : observer_(observer), wanted_(wanted & StageSet::all()) {}
  StageSet wants() const override { return wanted_; }
  void observe(const Slice& block) override { observer_.observe(block); }

private:
  Observer& observer_;
  StageSet wanted_;
};

} // namespace

PhaseTimes compute_derived(Layer layer, const Plan& plan, Observer& observer, std::size_t threads) {
  const Dims& dims = layer.dims;
  const Stage values = inputs_of(layer, Stage::head_out).back();
  const auto asks = [&](Stage stage) { return contains(plan.wanted, stage); };
  const bool of_heads = std::ranges::any_of(derived_stages(), [&](const StageInfo& info) {
    return info.stage != Stage::routing && asks(info.stage);
  });
  const bool of_values = asks(Stage::value_norms) || asks(Stage::value_norms_sum);
  std::vector<Stage> inputs;
  if (of_heads) inputs.push_back(Stage::weights);
  if (of_values) inputs.push_back(values);
  if (asks(Stage::routing))
    inputs.push_back(Stage::experts), inputs.push_back(Stage::expert_weights);
  if (of_heads)
    require_memory(plan.batches.size() * dims.H * dims.T * dims.S_all * size_of(layer.dtype),
                   "the weights of all heads", "give a shorter text");
  Trace traced(layer, inputs);
  Steps steps(observer, plan.wanted);
  Several both;
  both.add(traced), both.add(steps);
  Selection selection;
  if (dims.batched) selection.batch = IndexList::of_indices(plan.batches, message("<batch>"));
  const PhaseTimes times = compute(layer, make_plan(layer, both.wants(), selection), both, threads);

  const bool nan_is_masked =
      layer.has_given(Stage::weights) || layer.settings.masked_rows == MaskedRows::nan;
  const Tensor v = of_values ? traced.value(values) : Tensor();
  const Tensor weights = of_heads ? traced.value(Stage::weights) : Tensor();
  for (const std::size_t item : plan.batches) {
    const ItemWeights of{weights,      item, dims.H, dims.T, dims.S_all, layer.length_of(item),
                         nan_is_masked};
    for (const Stage stage : plan.wanted)
      if (is_derived(stage))
        show(layer, stage, item,
             stage == Stage::routing ? routing_of(layer, traced, item)
                                     : numbers_of(stage, layer, v, of, threads),
             observer);
  }
  return times;
}

} // namespace mha
