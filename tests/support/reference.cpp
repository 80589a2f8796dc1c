#include "support/reference_positions.hpp"

#include <xtensor/xadapt.hpp>
#include <xtensor/xarray.hpp>
#include <xtensor/xbuilder.hpp>
#include <xtensor/xmanipulation.hpp>
#include <xtensor/xmath.hpp>
#include <xtensor/xstrided_view.hpp>
#include <xtensor/xview.hpp>

#include <cmath>
#include <limits>
#include <stdexcept>

namespace reference {

namespace {

std::size_t count_of(const Shape& shape) {
  std::size_t count = 1;
  for (std::size_t n : shape) count *= n;
  return count;
}

using Numbers = xt::xarray<double>;
using xt::all;
using xt::newaxis; ///< an axis along which everything is repeated

Numbers numbers(const Array& array) {
  return xt::adapt(array.values, array.shape);
}
Array array_of(const Numbers& result) {
  Array array(Shape(result.shape().begin(), result.shape().end()));
  std::copy(result.begin(), result.end(), array.values.begin());
  return array;
}

// x: B, T, d_model.
Array normalised_input(const Layer& layer) {
  if (layer.input_norm == Norm::none) return layer.X;
  Numbers x = numbers(layer.X);
  if (layer.input_norm == Norm::layer) x -= Numbers(xt::mean(x, {2}, xt::keep_dims));
  x /= Numbers(xt::sqrt(xt::mean(x * x, {2}, xt::keep_dims) + layer.input_norm_eps));
  if (!layer.norm_weight.empty()) x *= numbers(layer.norm_weight);
  if (!layer.norm_bias.empty()) x += numbers(layer.norm_bias);
  return array_of(x);
}

// x: B, rows, in. W: in, heads·d. The result: B, heads, rows, d.
Array projected(const Array& x, const Array& W, const Array& bias, std::size_t heads,
                std::size_t d) {
  Array y({x.shape[0], heads, x.shape[1], d});
  for (std::size_t b = 0; b < x.shape[0]; ++b)
    for (std::size_t h = 0; h < heads; ++h)
      for (std::size_t t = 0; t < x.shape[1]; ++t)
        for (std::size_t i = 0; i < d; ++i) {
          const std::size_t column = h * d + i;
          double sum = bias.empty() ? 0 : bias(column);
          if (W.empty())
            sum += x(b, t, column);
          else
            for (std::size_t c = 0; c < x.shape[2]; ++c) sum += x(b, t, c) * W(c, column);
          y(b, h, t, i) = sum;
        }
  return y;
}

// One number a column of each head, as a row of a head broadcasts: a weight counts d: the same for
// each head; heads, d; or heads·d.
Numbers by_head(const Array& weight, std::size_t heads, std::size_t d) {
  Numbers w = numbers(weight);
  if (w.size() == heads * d) w.reshape({heads, std::size_t{1}, d});
  return w;
}

// The mean over a head's row; over the rows of all heads where the weight counts heads·d.
Numbers row_mean(const Numbers& x, const Array& weight) {
  const bool whole = weight.shape.size() == 1 && weight.shape[0] == x.shape(1) * x.shape(3);
  if (whole) return xt::mean(x, {1, 3}, xt::keep_dims);
  return xt::mean(x, {3}, xt::keep_dims);
}

// q: B, heads, rows, d. x / √(mean x² + ε) · w; or the LayerNorm with weight and bias.
Array normed(const Layer& layer, const Array& q, const Array& weight, const Array& bias) {
  Numbers x = numbers(q);
  const Numbers w = by_head(weight, q.shape[1], q.shape[3]) +
                    (layer.one_plus && !layer.qk_layer_norm ? 1.0 : 0.0);
  if (layer.qk_layer_norm) x -= row_mean(x, weight);
  Numbers y = x / xt::sqrt(row_mean(x * x, weight) + layer.qk_norm_eps) * w;
  if (!bias.empty()) y += by_head(bias, q.shape[1], q.shape[3]);
  return array_of(y);
}

// v: B, heads, rows, d: x / √(mean x² + ε) · w.
Array rms_normed(const Layer& layer, const Array& v, const Array& weight) {
  const Numbers x = numbers(v);
  return array_of(x / xt::sqrt(row_mean(x * x, weight) + layer.qk_norm_eps) *
                  by_head(weight, v.shape[1], v.shape[3]));
}

// z: B, H, T, d_v. g: B, H, T, d_v or 1.
Array gated(const Layer& layer, const Array& z, const Array& g) {
  Array y = z;
  for (std::size_t i = 0; i < y.values.size(); ++i) {
    const double x = g.values[i / (z.values.size() / g.values.size())];
    const double sigma = 1 / (1 + std::exp(-x));
    y.values[i] *= layer.gate == Gate::sigmoid    ? sigma
                   : layer.gate == Gate::softplus ? std::log(1 + std::exp(x))
                                                  : x * sigma;
  }
  return y;
}

// What the scores of query t are multiplied by beside the scale.
double temperature(const Layer& layer, std::size_t t) {
  const double first = layer.has_rope_offset ? static_cast<double>(layer.rope_offset)
                                             : real(layer.P());
  const double p = layer.positions.empty() ? first + real(t) : layer.positions.values[t];
  const double steps = std::floor((p + real(layer.temperature_offset)) / layer.temperature_length);
  return 1 + layer.temperature * std::log(1 + std::max(steps, 0.0));
}

// x: B, T, d_model. RMS-normed x W + b: B, T, r, of the first r columns of W.
Array compressed(const Array& x, const Array& W, const Array& bias, const Array& weight,
                 double eps) {
  const std::size_t r = weight.shape[0];
  Array c({x.shape[0], x.shape[1], r});
  for (std::size_t b = 0; b < x.shape[0]; ++b)
    for (std::size_t t = 0; t < x.shape[1]; ++t) {
      double square = 0;
      for (std::size_t i = 0; i < r; ++i) {
        c(b, t, i) = bias.empty() ? 0 : bias(i);
        for (std::size_t j = 0; j < x.shape[2]; ++j) c(b, t, i) += x(b, t, j) * W(j, i);
        square += c(b, t, i) * c(b, t, i) / real(r);
      }
      for (std::size_t i = 0; i < r; ++i) c(b, t, i) *= weight(i) / std::sqrt(square + eps);
    }
  return c;
}

// x: B, T, d_model. The last d_pe columns of x W_kv_a: B, T, d_pe.
Array shared_key(const Layer& layer, const Array& x) {
  const std::size_t r = layer.W_kv_a.shape[1] - layer.d_pe;
  Array k({x.shape[0], x.shape[1], layer.d_pe});
  for (std::size_t b = 0; b < x.shape[0]; ++b)
    for (std::size_t t = 0; t < x.shape[1]; ++t)
      for (std::size_t i = 0; i < layer.d_pe; ++i) {
        k(b, t, i) = layer.b_kv_a.empty() ? 0 : layer.b_kv_a(r + i);
        for (std::size_t j = 0; j < x.shape[2]; ++j)
          k(b, t, i) += x(b, t, j) * layer.W_kv_a(j, r + i);
      }
  return k;
}

// c: B, T, r. A head's `width` columns of c W_kv_b from `first` on, then the shared key, if it is
// given: B, H, T, width + d_pe.
Array expanded(const Layer& layer, const Array& c, std::size_t first, std::size_t width,
               const Array* shared) {
  const std::size_t more = shared ? layer.d_pe : 0, step = layer.W_kv_b.shape[1] / layer.H;
  Array y({c.shape[0], layer.H, c.shape[1], width + more});
  for (std::size_t b = 0; b < c.shape[0]; ++b)
    for (std::size_t h = 0; h < layer.H; ++h)
      for (std::size_t t = 0; t < c.shape[1]; ++t) {
        for (std::size_t i = 0; i < width; ++i)
          for (std::size_t j = 0; j < c.shape[2]; ++j)
            y(b, h, t, i) += c(b, t, j) * layer.W_kv_b(j, h * step + first + i);
        for (std::size_t i = 0; i < more; ++i) y(b, h, t, width + i) = (*shared)(b, t, i);
      }
  return y;
}

// Every number no farther than c from 0; 0: as it is.
Array clipped(Array a, double c) {
  if (c > 0)
    for (double& value : a.values) value = value > c ? c : value < -c ? -c : value;
  return a;
}

// past: B, H_kv, P, d. current: B, H_kv, S, d. extra: H_kv·d. The result: B, H_kv, S_all, d.
Array all_keys(const Layer& layer, const Array& past, const Array& current, const Array& extra) {
  const std::size_t heads = current.shape[1], d = current.shape[3], P = layer.P(), S = layer.S();
  Numbers keys = xt::zeros<double>({current.shape[0], heads, layer.S_all(), d});
  if (P > 0) xt::view(keys, all(), all(), xt::range(0, P)) = numbers(past);
  xt::view(keys, all(), all(), xt::range(P, P + S)) = numbers(current);
  if (!extra.empty())
    xt::view(keys, all(), all(), P + S) = xt::reshape_view(numbers(extra), {heads, d});
  return array_of(keys); // and a zero key is zeros
}

/// Each key/value head once for each query head that reads it.
Numbers for_query_heads(const Array& k, std::size_t heads) {
  const Numbers own = numbers(k);
  Numbers read = xt::zeros<double>({k.shape[0], heads, k.shape[2], k.shape[3]});
  for (std::size_t h = 0; h < heads; ++h)
    xt::view(read, all(), h) = xt::view(own, all(), h * k.shape[1] / heads);
  return read;
}

// q: B, H, T, d_k. k: B, H_kv, S, d_k. The result: B, H, T, S.
Array dot_products(const Array& q, const Array& k) {
  const Numbers queries = numbers(q), keys = for_query_heads(k, q.shape[1]);
  return array_of(xt::sum(xt::view(queries, all(), all(), all(), newaxis()) *
                              xt::view(keys, all(), all(), newaxis()),
                          {4}));
}

/// Row (b, h, t) of a map becomes the number f(row, h, b, t).
template <class F> Array each_row(const Array& from, F f) {
  Array to({from.shape[0], from.shape[1], from.shape[2]});
  for (std::size_t b = 0; b < from.shape[0]; ++b)
    for (std::size_t h = 0; h < from.shape[1]; ++h)
      for (std::size_t t = 0; t < from.shape[2]; ++t) {
        std::vector<double> row;
        for (std::size_t j = 0; j < from.shape[3]; ++j) row.push_back(from(b, h, t, j));
        to(b, h, t) = f(row, b, h, t);
      }
  return to;
}

// weights: B, H, T, S. v: B, H_kv, S, d_v. The result: B, H, T, d_v.
Array weighted_values(const Array& weights, const Array& v) {
  const Numbers alpha = numbers(weights), values = for_query_heads(v, weights.shape[1]);
  return array_of(xt::sum(xt::view(alpha, all(), all(), all(), all(), newaxis()) *
                              xt::view(values, all(), all(), newaxis()),
                          {3}));
}

// head_out: B, H, T, d_v. W_o: H·d_v, d_out. The result: B, H, T, d_out.
Array through_output(const Layer& layer, const Array& head_out) {
  const std::size_t H = head_out.shape[1], T = head_out.shape[2], d_v = head_out.shape[3];
  const std::size_t d_out = layer.W_o.empty() ? H * d_v : layer.W_o.shape[1];
  Array result({head_out.shape[0], H, T, d_out});
  for (std::size_t b = 0; b < head_out.shape[0]; ++b)
    for (std::size_t h = 0; h < H; ++h)
      for (std::size_t t = 0; t < T; ++t)
        for (std::size_t i = 0; i < d_v; ++i) {
          const std::size_t row = h * d_v + i;
          if (layer.W_o.empty())
            result(b, h, t, row) = head_out(b, h, t, i);
          else
            for (std::size_t o = 0; o < d_out; ++o)
              result(b, h, t, o) += head_out(b, h, t, i) * layer.W_o(row, o);
        }
  return result;
}

// B, H, T, d to B, T, H·d.
Array side_by_side(const Array& heads) {
  Numbers tokens = xt::transpose(numbers(heads), {0, 2, 1, 3});
  return array_of(
      tokens.reshape({heads.shape[0], heads.shape[2], heads.shape[1] * heads.shape[3]}));
}

Array sum(const Array& a, const Array& b) {
  return array_of(numbers(a) + numbers(b));
}

} // namespace

Array::Array(Shape the_shape, double fill)
    : shape(std::move(the_shape)), values(count_of(shape), fill) {}

std::size_t Array::flat(std::initializer_list<std::size_t> index) const {
  if (index.size() != shape.size()) throw std::out_of_range("another number of axes");
  std::size_t at = 0, axis = 0;
  for (std::size_t i : index) {
    if (i >= shape[axis]) throw std::out_of_range("an index beyond its axis");
    at = at * shape[axis++] + i;
  }
  return at;
}

double Array::broadcast(std::size_t b, std::size_t h, std::size_t t, std::size_t j) const {
  return (*this)(shape[0] == 1 ? 0 : b, shape[1] == 1 ? 0 : h, shape[2] == 1 ? 0 : t,
                 shape[3] == 1 ? 0 : j);
}

std::map<std::string, Array> compute(const Layer& layer) {
  std::map<std::string, Array> s;
  // A stage that is given replaces what was computed.
  const auto put = [&](const char* name, Array computed) -> const Array& {
    const auto found = layer.given.find(name);
    return s[name] = found == layer.given.end() ? std::move(computed) : found->second;
  };

  const Array& x = put("x", normalised_input(layer));
  const Array *from_q = &x, *c_kv = nullptr, *k_pe = nullptr;
  if (!layer.W_q_a.empty())
    from_q =
        &put("c_q", compressed(x, layer.W_q_a, layer.b_q_a, layer.q_a_norm, layer.qk_norm_eps));
  if (layer.d_pe > 0) {
    c_kv =
        &put("c_kv", compressed(x, layer.W_kv_a, layer.b_kv_a, layer.kv_a_norm, layer.qk_norm_eps));
    k_pe = &put("k_pe", shared_key(layer, x));
  }
  const double clip_q = layer.q_norm_weight.empty() ? layer.clip : 0;
  const double clip_k = layer.k_norm_weight.empty() ? layer.clip : 0;
  const std::size_t own = layer.d_k - layer.d_pe; // of a key
  const Array* q =
      &put("q", clipped(projected(*from_q, layer.W_q, layer.b_q, layer.H, layer.d_k), clip_q));
  const Array* k = &put("k", clipped(c_kv ? expanded(layer, *c_kv, 0, own, k_pe)
                                          : projected(layer.X_k.empty() ? x : layer.X_k, layer.W_k,
                                                      layer.b_k, layer.H_kv, layer.d_k),
                                     clip_k));
  const Array* v = &put("v", clipped(c_kv ? expanded(layer, *c_kv, own, layer.d_v, nullptr)
                                          : projected(layer.X_v.empty() ? x : layer.X_v, layer.W_v,
                                                      layer.b_v, layer.H_kv, layer.d_v),
                                     layer.clip));
  if (!layer.v_norm_weight.empty())
    v = &put("v_norm", rms_normed(layer, *v, layer.v_norm_weight));
  const auto turn = [&] {
    if (layer.rope == Rope::none) return;
    q = &put("q_rope", rotated(layer, *q));
    k = &put("k_rope", rotated(layer, *k));
  };
  if (layer.norm_after_rope) turn();
  if (!layer.q_norm_weight.empty())
    q = &put("q_norm",
             clipped(normed(layer, *q, layer.q_norm_weight, layer.q_norm_bias), layer.clip));
  if (!layer.k_norm_weight.empty())
    k = &put("k_norm",
             clipped(normed(layer, *k, layer.k_norm_weight, layer.k_norm_bias), layer.clip));
  if (!layer.norm_after_rope) turn();
  if (layer.S_all() != layer.S()) {
    k = &put("k_all", all_keys(layer, layer.k_past, *k, layer.k_extra));
    v = &put("v_all", all_keys(layer, layer.v_past, *v, layer.v_extra));
  }

  const Array* score = &put("scores", dot_products(*q, *k));
  score = &put("scaled", each(*score, [&](double a, auto, auto, auto t, auto) {
                 return a * layer.scale * (layer.temperature == 0 ? 1 : temperature(layer, t));
               }));
  if (layer.softcap != 0)
    score = &put("capped", each(*score, [&](double a, auto...) {
                   return layer.softcap * std::tanh(a / layer.softcap);
                 }));
  if (!layer.bias.empty() || !layer.relative_bias.empty() || !layer.relative_key.empty() ||
      layer.alibi != Alibi::none)
    score = &put("biased", with_relative_key(layer, *q, *k, biased(layer, *score)));
  const Array& logits = put("masked", masked(layer, *score));

  const auto sink = [&](std::size_t h) { return layer.sinks.empty() ? -infinity : layer.sinks(h); };
  const Array& row_max = put(
      "row_max", each_row(logits, [&](const auto& row, std::size_t, std::size_t h, std::size_t) {
        double max = sink(h);
        for (double a : row) max = std::isnan(a) || a > max ? a : max;
        return max;
      }));
  // What the masks hide; where the computation starts after them, what is given shows it.
  Array hidden = each(*score, [](double, auto...) { return 0.0; });
  if (!layer.bias.empty()) hidden = biased(layer, hidden);
  hidden = masked(layer, hidden);
  bool given_behind = false;
  for (const char* name : {"masked", "shifted", "exp", "row_sum"})
    given_behind = given_behind || layer.given.count(name) != 0;
  const auto all_hidden = [&](std::size_t b, std::size_t h, std::size_t t) {
    bool all = true;
    for (std::size_t j = 0; j < layer.S_all(); ++j) all = all && hidden(b, h, t, j) == -infinity;
    return all || given_behind;
  };
  // What is subtracted; a row in which nothing is allowed stays at −inf.
  const auto shift = [&](std::size_t b, std::size_t h, std::size_t t) {
    const bool nothing = row_max(b, h, t) == -infinity && all_hidden(b, h, t);
    return layer.naive || nothing ? 0 : row_max(b, h, t);
  };
  const Array& shifted =
      put("shifted",
          each(logits, [&](double a, auto b, auto h, auto t, auto) { return a - shift(b, h, t); }));
  const Array& exp = put("exp", each(shifted, [](double a, auto...) { return std::exp(a); }));
  const Array& row_sum = put(
      "row_sum", each_row(exp, [&](const auto& row, std::size_t b, std::size_t h, std::size_t t) {
        double total = std::exp(sink(h) - shift(b, h, t));
        for (double a : row) total += a;
        return total;
      }));
  put("logsumexp", each_row(exp, [&](const auto&, std::size_t b, std::size_t h, std::size_t t) {
        return (layer.naive ? 0 : row_max(b, h, t)) + std::log(row_sum(b, h, t));
      }));
  const auto fully_masked = [&](std::size_t b, std::size_t h, std::size_t t) {
    return row_sum(b, h, t) == 0 && all_hidden(b, h, t);
  };
  const Array& weights = put("weights", each(exp, [&](double a, auto b, auto h, auto t, auto) {
                               if (!fully_masked(b, h, t)) return a / row_sum(b, h, t);
                               switch (layer.masked_rows) {
                               case MaskedRows::zero:
                                 return 0.0;
                               case MaskedRows::nan:
                                 return std::nan("");
                               case MaskedRows::uniform:
                                 break;
                               }
                               return 1 / real(layer.S_all());
                             }));

  const Array* z = &put("head_out", weighted_values(weights, *v));
  if (!layer.head_norm_weight.empty())
    z = &put("head_norm", rms_normed(layer, *z, layer.head_norm_weight));
  if (!layer.W_gate.empty()) {
    const std::size_t numbers_of_head = layer.W_gate.shape[1] / layer.H;
    const Array& g = put("gate", projected(x, layer.W_gate, layer.b_gate, layer.H, numbers_of_head));
    z = &put("gated", gated(layer, *z, g));
  }
  const Array& head_result = put("head_result", through_output(layer, *z));
  const Array& concat = put("concat", side_by_side(*z));
  Array output({concat.shape[0], concat.shape[1], head_result.shape[3]});
  for (std::size_t b = 0; b < output.shape[0]; ++b)
    for (std::size_t t = 0; t < output.shape[1]; ++t)
      for (std::size_t o = 0; o < output.shape[2]; ++o) {
        double total = layer.b_o.empty() ? 0 : layer.b_o(o);
        if (layer.given.count("head_result") > 0) // what the heads add, as it is given
          for (std::size_t h = 0; h < head_result.shape[1]; ++h) total += head_result(b, h, t, o);
        else if (layer.W_o.empty())
          total += concat(b, t, o);
        else
          for (std::size_t i = 0; i < concat.shape[2]; ++i)
            total += concat(b, t, i) * layer.W_o(i, o);
        output(b, t, o) = total;
      }
  put("output", std::move(output));
  if (layer.residual) put("residual", sum(layer.X, s["output"]));
  return s;
}

} // namespace reference
