#include <mha/observe/derived.hpp>

#include <mha/kernels/dense.hpp>
#include <mha/layer/graph.hpp>
#include <mha/observe/trace.hpp>
#include <mha/system/limits.hpp>
#include <mha/system/named.hpp>
#include <mha/system/parallel.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace mha {

namespace {

constexpr std::array<DerivedInfo, 6> kinds{{
    {DerivedKind::weights_mean, "weights_mean", Axis::query, Axis::key, false,
     "mean over heads of α"},
    {DerivedKind::value_norms, "value_norms", Axis::query, Axis::key, true, "‖α_ts v_s W_o[h]‖"},
    {DerivedKind::value_norms_sum, "value_norms_sum", Axis::query, Axis::key, false,
     "‖Σ_h α_ts v_s W_o[h]‖"},
    {DerivedKind::rollout, "rollout", Axis::query, Axis::key, false,
     "rownorm(mean_h α + I) · layer before"},
    {DerivedKind::received, "received", Axis::head, Axis::key, false, "mean over rows of α_ts"},
    {DerivedKind::divergence, "divergence", Axis::head, Axis::head, false,
     "Jensen–Shannon divergence between heads, bits, mean over rows"},
}};

/// One batch item's weights, H × T × S, and how many of its rows are no padding.
struct ItemWeights {
  const Tensor& weights;
  std::size_t item, H, T, S, length;
  bool nan_is_masked; ///< a row of NaN alone is one that may attend to nothing

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

/// Sum of a row's weights: 0 where it attends to nothing. Any other row with a NaN sums to NaN, and
/// so does what is made of it.
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

Shape shape_of_item(const DerivedInfo& kind, const Dims& dims) {
  const auto length = [&](Axis axis) {
    return axis == Axis::head ? dims.H : axis == Axis::query ? dims.T : dims.S_all;
  };
  Shape shape{length(kind.rows), length(kind.cols)};
  if (kind.of_heads) shape.insert(shape.begin(), dims.H);
  return shape;
}

void require_layout(const DerivedInfo& kind, const Layer& layer) {
  const Dims& dims = layer.dims;
  if (layer.settings.columns)
    fail("{}: tokens are rows here, and the layer's are columns", kind.name);
  if (kind.kind == DerivedKind::rollout && (dims.T != dims.S_all || !layer.X_k.empty()))
    fail("rollout is of self-attention, whose keys are the queries' tokens: {} queries, {} keys",
         dims.T, dims.S_all);
}

} // namespace

std::span<const DerivedInfo> derived_stages() {
  return kinds;
}

const DerivedInfo* find_derived(std::string_view name) {
  return find_named(kinds, name);
}

Tensor DerivedMaps::next(const Layer& layer, const ComputeLayer& by) {
  const Dims& dims = layer.dims;
  const DerivedInfo& kind = kinds[static_cast<std::size_t>(kind_)];
  const bool with_values =
      kind_ == DerivedKind::value_norms || kind_ == DerivedKind::value_norms_sum;
  const Stage values = has_step(layer, Stage::v_all) ? Stage::v_all : Stage::v;
  std::vector<Stage> stages{Stage::weights};
  if (with_values) stages.push_back(values);
  for (const Stage stage : stages) require_stage(layer, stage);
  require_layout(kind, layer);
  Shape shape = shape_of_item(kind, dims);
  if (dims.batched) shape.insert(shape.begin(), dims.B);
  require_memory(count_of(shape) * sizeof(double) +
                     dims.B * dims.H * dims.T * dims.S_all * size_of(layer.dtype),
                 "the weights of all heads", "give a shorter text");
  const Trace traced = trace(layer, stages, {}, threads_, by);
  const Tensor& weights = traced.value(Stage::weights);
  const Tensor v = with_values ? traced.value(values) : Tensor();

  const bool nan_is_masked =
      layer.has_given(Stage::weights) || layer.settings.masked_rows == MaskedRows::nan;
  Tensor result(DType::f64, shape);
  const std::size_t each = result.count() / dims.B;
  for (std::size_t b = 0; b < dims.B; ++b) {
    const ItemWeights of{weights, b, dims.H, dims.T, dims.S_all, layer.length_of(b), nan_is_masked};
    Numbers numbers;
    switch (kind_) {
    case DerivedKind::weights_mean:
      numbers = mean_over_heads(of);
      break;
    case DerivedKind::value_norms:
      numbers = norms_of_values(layer, v, of, threads_);
      break;
    case DerivedKind::value_norms_sum:
      numbers = norms_of_sums(layer, v, of, threads_);
      break;
    case DerivedKind::rollout: {
      if (rollout_.size() <= b) {
        Numbers& identity = rollout_.emplace_back(dims.T * dims.T);
        for (std::size_t t = 0; t < of.length; ++t) identity[t * dims.T + t] = 1;
      }
      numbers = rollout_[b] = rolled_out(of, rollout_[b]);
      break;
    }
    case DerivedKind::received:
      numbers = received_of(of);
      break;
    case DerivedKind::divergence:
      numbers = divergences_of(of, threads_);
      break;
    }
    std::ranges::copy(numbers,
                      result.as_mutable<double>().begin() + static_cast<std::ptrdiff_t>(b * each));
  }
  return result;
}

} // namespace mha
