// Variances of the steps that treat each token by itself.

#include <mha/compare/spread.hpp>
#include <mha/forward/feed_forward.hpp>
#include <mha/forward/rotary_kinds.hpp>
#include <mha/layer/graph.hpp>
#include <mha/observe/trace.hpp>

#include <algorithm>
#include <cmath>

namespace mha {

namespace {

StageNumbers squares_of(const StageNumbers& numbers) {
  StageNumbers squares(numbers.size());
  std::ranges::transform(numbers, squares.begin(), [](double a) { return a * a; });
  return squares;
}

Squares grid_of(std::size_t rows, StageNumbers numbers) {
  Squares grid(rows, 0);
  grid.cols = rows == 0 ? 0 : numbers.size() / rows;
  grid.numbers = std::move(numbers);
  return grid;
}

void add_each(StageNumbers& to, const StageNumbers& other) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] += other[i];
}

} // namespace

/// The variance of x W; without W, of x.
StageNumbers Variances::of_product(const StageNumbers& x, StageNumbers variance, const Tensor& W,
                                   const StageNumbers& y) const {
  if (W.empty()) return variance;
  const std::size_t n = W.shape()[0], width = W.shape()[1], rows = x.size() / n;
  // Wide weights, such as the vocabulary's, are multiplied some columns at a time.
  constexpr std::size_t most = std::size_t{1} << 23;
  const std::size_t at_once = std::max<std::size_t>(1, std::min(width, most / n));
  if (x.size() != rows * n || variance.size() != x.size() || y.size() != rows * width)
    fail("a product of {} numbers with {} rows of {}", x.size(), n, width);
  const bool exact = is_exact(W);
  const Squares a = grid_of(rows, squares_of(x)), of_x = grid_of(rows, std::move(variance));
  StageNumbers result(rows * width);
  for (std::size_t first = 0; first < width; first += at_once) {
    const std::size_t count = std::min(at_once, width - first);
    Squares squares(n, count), own(exact ? 0 : n, count);
    for (std::size_t i = 0; i < n; ++i) {
      double* w = squares.row(i);
      convert(W.raw() + (i * width + first) * size_of(W.dtype()), W.dtype(),
              reinterpret_cast<std::byte*>(w), DType::f64, count);
      for (std::size_t j = 0; !exact && j < count; ++j) own.row(i)[j] = kept_.of(w[j]);
      for (std::size_t j = 0; j < count; ++j) w[j] *= w[j];
    }
    const Squares some =
        variance_of_product(a, of_x, squares, exact ? nullptr : &own, summed_, threads_);
    for (std::size_t t = 0; t < rows; ++t)
      for (std::size_t j = 0; j < count; ++j) {
        const std::size_t at = t * width + first + j;
        result[at] = some.row(t)[j] + mha::of_sum(summed_, n, 0, y[at]);
      }
  }
  return result;
}

/// x W + b for products that are not stages, as the queries of a small layer.
StageNumbers Variances::multiplied(const StageNumbers& x, const Tensor& W, const Tensor& b) const {
  Layer bare;
  const std::size_t n = W.shape()[0], rows = x.size() / n;
  bare.dtype = DType::f64;
  bare.dims.T = bare.dims.S = bare.dims.S_all = rows, bare.dims.d_model = n;
  bare.dims.H = bare.dims.H_kv = 1, bare.dims.d_k = W.shape()[1];
  bare.X = Tensor::of<double>({1, rows, n}, x);
  bare.W_q = convert(W, DType::f64);
  if (!b.empty()) bare.b_q = convert(b, DType::f64);
  return values_in_double(trace(bare, {Stage::q}, {}, threads_).value(Stage::q));
}

StageNumbers Variances::of_projection(Stage stage) {
  const bool is_q = stage == Stage::q, is_k = stage == Stage::k;
  const Tensor& W = is_q ? layer_.W_q : is_k ? layer_.W_k : layer_.W_v;
  const Tensor& other = is_k ? layer_.X_k : layer_.X_v;
  const StageNumbers& y = values_.at(stage);
  if (!is_q && !other.empty()) return of_product(values_in_double(other), of_tensor(other), W, y);
  const Stage from = input(stage);
  StageNumbers variance = of_product(values_.at(from), variances_.at(from), W, y);
  if (is_k && has_step(layer_, Stage::k_pe)) return of_keys(std::move(variance));
  return variance;
}

/// Keys of latent attention: the last part of every head is the shared k_pe.
StageNumbers Variances::of_keys(StageNumbers variance) const {
  const Dims& d = layer_.dims;
  const StageNumbers& shared = variances_.at(Stage::k_pe);
  for (std::size_t row = 0; row < shared.size() / d.d_pe; ++row)
    for (std::size_t h = 0; h < d.H_kv; ++h)
      std::copy_n(&shared[row * d.d_pe], d.d_pe,
                  &variance[row * d.H_kv * d.d_k + (h + 1) * d.d_k - d.d_pe]);
  return variance;
}

StageNumbers Variances::of_compressed(Stage stage) {
  const bool is_q = stage == Stage::c_q;
  const StageNumbers& x = values_.at(input(stage));
  const Tensor& W = is_q ? layer_.W_c_q : layer_.W_c_kv;
  const StageNumbers product = multiplied(x, W, is_q ? layer_.b_c_q : layer_.b_c_kv);
  StageNumbers variance = of_product(x, variances_.at(input(stage)), W, product);
  keep(variance, product);
  return of_norm({InputNorm::rms,
                  layer_.settings.qk_norm_eps,
                  is_q ? layer_.c_q_norm_weight : layer_.c_kv_norm_weight,
                  {}},
                 product, std::move(variance));
}

/// The variance of a norm with a row for each token.
StageNumbers Variances::of_norm(const Norm& norm, const StageNumbers& x,
                                StageNumbers variance) const {
  if (!norm.present()) return variance;
  const std::size_t n = x.size() / (layer_.dims.B * layer_.dims.T);
  const std::vector<double> gains = gains_of(norm.weight, norm.one_plus, n);
  for (std::size_t first = 0; first + n <= x.size(); first += n)
    through_norm(norm.kind, norm.eps, x.data() + first, gains.data(), kept_, summed_,
                 variance.data() + first, n);
  return variance;
}

StageNumbers Variances::of_head_norm(Stage stage) {
  const bool of_keys = stage == Stage::q_norm || stage == Stage::k_norm;
  const HeadNormForm form = of_keys ? qk_norm_of(layer_) : rms_norm_of_heads(layer_);
  const bool rms = form.kind == QkNorm::rms;
  const Tensor& weight = stage == Stage::q_norm   ? layer_.q_norm_weight
                         : stage == Stage::k_norm ? layer_.k_norm_weight
                         : stage == Stage::v_norm ? layer_.v_norm_weight
                                                  : layer_.head_norm_weight;
  const StageNumbers& x = values_.at(input(stage));
  StageNumbers variance = variances_.at(input(stage));
  const std::size_t n = weight.rank() == 2 ? weight.shape()[1] : weight.count();
  const std::vector<double> gains = gains_of(weight, form.one_plus && rms, weight.count());
  for (std::size_t first = 0; first + n <= x.size(); first += n)
    through_norm(rms ? InputNorm::rms : InputNorm::layer, form.eps, x.data() + first,
                 gains.data() + first % weight.count(), kept_, summed_, variance.data() + first, n);
  return variance;
}

/// A pair (a, b) becomes a cos − b sin, b cos + a sin: each has at most both variances. Cosines and
/// sines are also rounded, and so is an angle, a position times a frequency.
StageNumbers Variances::of_rotation(Stage stage) {
  const Dims& d = layer_.dims;
  const Settings& s = layer_.settings;
  const bool is_q = stage == Stage::q_rope;
  const StageNumbers& x = values_.at(input(stage));
  StageNumbers variance = variances_.at(input(stage));
  const std::int64_t begin = layer_.first_position();
  const RotaryFrequencies theta = rotary_frequencies(layer_, std::max(d.T, d.S), begin);
  const std::size_t pairs = theta.frequencies.size(), heads = is_q ? d.H : d.H_kv,
                    tokens = is_q ? d.T : d.S;
  for (std::size_t head = 0; head < x.size() / d.d_k; ++head)
    for (std::size_t i = 0; i < pairs; ++i) {
      const bool beside = s.rope == Rope::interleaved;
      const std::size_t from = head * d.d_k + s.rope_first, a = from + (beside ? 2 * i : i),
                        b = from + (beside ? 2 * i + 1 : i + pairs);
      const double position = rotary_position(layer_, begin, head / heads % tokens, i),
                   angle = summed_.half * position * theta.frequencies[i],
                   size = x[a] * x[a] + x[b] * x[b];
      variance[a] = variance[b] =
          theta.attention_factor * theta.attention_factor *
          (variance[a] + variance[b] + size * angle * angle + kept_.at_worst(std::sqrt(size)));
    }
  return variance;
}

/// The variance of past, current, learned extra and zero keys or values.
StageNumbers Variances::of_appended(Stage stage) {
  const Dims& d = layer_.dims;
  const bool is_k = stage == Stage::k_all;
  const StageNumbers &own = variances_.at(input(stage)), &y = values_.at(stage);
  const std::size_t width = d.H_kv * (is_k ? d.d_k : d.d_v);
  StageNumbers variance(y.size());
  const bool exact = is_exact(is_k ? layer_.k_past : layer_.v_past);
  for (std::size_t row = 0; row < d.B * d.S_all; ++row)
    for (std::size_t i = 0; i < width; ++i) {
      const std::size_t at = row * width + i, j = row % d.S_all;
      const bool current = j >= d.past && j < d.past + d.S;
      variance[at] = current ? own[(row / d.S_all * d.S + j - d.past) * width + i]
                     : exact ? 0
                             : kept_.of(y[at]);
    }
  return variance;
}

/// Replaces rows of n numbers by their activations, and their variances accordingly.
void Variances::through_activation(Activation activation, std::size_t n, StageNumbers& x,
                                   StageNumbers& variance) const {
  const std::size_t rows = x.size() / n;
  const auto activated = [&](const StageNumbers& at) {
    StageNumbers y(at.size());
    activate<double>(activation, {at.data(), rows, n, n}, {y.data(), rows, n, n});
    return y;
  };
  StageNumbers step(x.size()), above = x, below = x;
  for (std::size_t i = 0; i < x.size(); ++i) {
    step[i] = std::max(std::sqrt(variance[i]), 1e-4 * std::max(1.0, std::fabs(x[i])));
    above[i] += step[i], below[i] -= step[i];
  }
  const StageNumbers y = activated(x);
  const bool of_row = activation == Activation::solu; // y = x s, s a softmax over the row
  if (!of_row) above = activated(above), below = activated(below);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double slope = of_row ? (x[i] == 0 ? 0 : y[i] / x[i]) * (1 + std::fabs(x[i]))
                                : (above[i] - below[i]) / (2 * step[i]);
    // Far below 0, 1 + erf and 1 + tanh cancel.
    variance[i] = slope * slope * variance[i] + summed_.at_worst(x[i]);
  }
  x = y;
}

namespace {

/// Multiplies numbers by others of their own variance.
void multiply(StageNumbers& x, StageNumbers& variance, const StageNumbers& factor,
              const StageNumbers& of_factor) {
  for (std::size_t i = 0; i < x.size(); ++i) {
    variance[i] = variance[i] * factor[i] * factor[i] + x[i] * x[i] * of_factor[i];
    x[i] *= factor[i];
  }
}

} // namespace

StageNumbers Variances::of_activation() {
  const FeedForward& mlp = layer_.block->mlp;
  StageNumbers act = values_.at(Stage::mlp_pre), variance = variances_.at(Stage::mlp_pre);
  through_activation(mlp.activation, mlp.in.out(), act, variance);
  if (mlp.gated()) {
    keep(variance, act);
    multiply(act, variance, values_.at(Stage::mlp_up), variances_.at(Stage::mlp_up));
  }
  for (std::size_t i = 0; !mlp.product_bias.empty() && i < act.size(); ++i)
    act[i] += value_at(mlp.product_bias, i % mlp.product_bias.count());
  return of_norm(mlp.inner, act, std::move(variance));
}

/// Of what a layer adds of the tokens' embedding for it, whose inner steps are not stages.
StageNumbers Variances::of_supplement() {
  using enum Stage;
  const Supplement& part = layer_.block->supplement;
  StageNumbers h = values_.at(residual), variance = variances_.at(residual);
  const Stage added = has_step(layer_, mlp_add) ? mlp_add : mlp_out;
  add_each(h, values_.at(added)), add_each(variance, variances_.at(added));
  keep(variance, h);
  StageNumbers z = multiplied(h, part.in.W, part.in.b);
  variance = of_product(h, std::move(variance), part.in.W, z);
  keep(variance, z);
  through_activation(part.activation, part.in.out(), z, variance);
  keep(variance, z);
  multiply(z, variance, values_.at(layer_embed), variances_.at(layer_embed));
  keep(variance, z);
  const StageNumbers y = multiplied(z, part.out.W, part.out.b);
  variance = of_product(z, std::move(variance), part.out.W, y);
  keep(variance, y);
  return of_norm(part.norm, y, std::move(variance));
}

/// The variance of X + output and of the sums after a block; a post-norm block norms its sum.
StageNumbers Variances::of_sum(Stage stage) {
  StageNumbers sum = stage == Stage::residual ? values_in_double(layer_.X) : StageNumbers(),
               variance = stage == Stage::residual ? of_stream(layer_.X) : StageNumbers();
  for (const Stage from : inputs_of(layer_, stage)) {
    if (from == Stage::resid_pre && stage == Stage::residual) continue;
    sum.resize(values_.at(from).size()), variance.resize(sum.size());
    add_each(sum, values_.at(from)), add_each(variance, variances_.at(from));
    keep(variance, sum); // each partial sum is stored
  }
  if (const double scale = layer_.block ? layer_.block->stream_scale : 1;
      stage == Stage::resid_post && scale != 1) {
    for (double& one : variance) one *= scale * scale;
  }
  if (stage == Stage::resid_post && layer_.block && layer_.block->shape == BlockShape::post)
    return of_norm(layer_.block->post_block_norm, sum, std::move(variance));
  return variance;
}

StageNumbers Variances::of_logits() {
  const ModelHead& head = layer_.ends->head;
  const StageNumbers& y = values_.at(Stage::logits);
  const bool normed = layer_.ends->has(Stage::final);
  StageNumbers x = normed ? values_.at(Stage::final) : values_in_double(layer_.ends->stream),
               variance = normed ? variances_.at(Stage::final) : of_stream(layer_.ends->stream);
  if (head.dense.present()) {
    StageNumbers product = multiplied(x, head.dense.W, head.dense.b);
    variance = of_product(x, std::move(variance), head.dense.W, product);
    keep(variance, product);
    through_activation(head.activation, head.dense.out(), product, variance);
    keep(variance, product);
    variance = of_norm(head.norm, product, std::move(variance));
    x = std::move(product);
    if (head.norm.present()) // x becomes the norm's result
      for (std::size_t first = 0, n = head.dense.out(); first < x.size(); first += n)
        norm_rows<double>(in_precision(head.norm, DType::f64), {&x[first], 1, n, n},
                          {&x[first], 1, n, n});
  }
  StageNumbers product = y; // before the cap and the scale
  for (double& number : product) {
    number = before_cap(number, head.softcap);
    if (head.scale != 0) number /= head.scale;
  }
  variance = of_product(x, std::move(variance), head.decoder.W, product);
  for (std::size_t i = 0; i < y.size(); ++i) {
    const double slope = head.softcap == 0 ? 1 : 1 - std::pow(y[i] / head.softcap, 2);
    variance[i] *= head.scale * head.scale * slope * slope;
  }
  return variance;
}

} // namespace mha
