#pragma once
// Multi-head attention in xtensor and float64 with one line for each step: the formulas of
// docs/maths.md, with every feature of a softmax layer. It shares no loop, kernel or order of sums
// with the library's own computation, so `mha-inspect diff LAYER --against textbook` compares the
// two. B batches, T queries, S keys, S_all including past, extra and zero ones, H query heads over
// H_kv key/value heads.

#include <mha/textbook/masks.hpp>

#include <map>
#include <numeric>
#include <utility>
#include <vector>

namespace mha::textbook {

/// The norm of the input.
inline Array input(const Layer& l) {
  const Array X = array(l.X);
  const InputNorm norm = l.settings.input_norm;
  if (norm == InputNorm::none) return X;
  Array x = norm == InputNorm::affine
                ? X
                : normalised(X, {2}, norm == InputNorm::layer, l.settings.input_norm_eps);
  if (!l.norm_weight.empty()) x *= array(l.norm_weight);
  if (!l.norm_bias.empty()) x += array(l.norm_bias);
  return x;
}

/// Latent attention's compressed rows: norm(x W + b).
inline Array compressed(const Layer& l, const Array& x, const Tensor& W, const Tensor& b,
                        const Tensor& weight) {
  const Array c = normalised(linear(x, W, b), {2}, false, l.settings.qk_norm_eps);
  return weight.empty() ? c : Array(c * array(weight));
}

/// x / rms(x) · weight of heads' rows (layer norm: without the mean): over each head, or over all
/// heads if the weight is as wide.
inline Array normalised_heads(const Array& x, const Tensor& weight, bool layer_norm, double eps) {
  const std::size_t heads = x.shape(1), d = x.shape(3);
  const bool of_all = weight.rank() == 1 && weight.count() == heads * d && heads > 1;
  return normalised(x, of_all ? Shape{1, 3} : Shape{3}, layer_norm, eps);
}

/// A weight of heads' rows: one for all heads, or heads × d.
inline Array by_head(const Tensor& w, std::size_t d) {
  return shaped(array(w), {w.count() / d, std::size_t{1}, d});
}

/// The norm of queries or keys.
inline Array qk_normalised(const Layer& l, const Array& x, const Tensor& weight,
                           const Tensor& bias) {
  const bool layer_norm = l.settings.qk_norm == QkNorm::layer;
  const double one = l.settings.qk_norm_one_plus && !layer_norm ? 1 : 0;
  Array y = normalised_heads(x, weight, layer_norm, l.settings.qk_norm_eps) *
            (by_head(weight, x.shape(3)) + one);
  if (!bias.empty()) y += by_head(bias, x.shape(3));
  return y;
}

/// The RMS norm of values, or of heads' results.
inline Array rms_normalised(const Layer& l, const Array& x, const Tensor& weight) {
  return normalised_heads(x, weight, false, l.settings.qk_norm_eps) * by_head(weight, x.shape(3));
}

/// What a gate's numbers become: σ(g), log(1 + eᵍ) or g σ(g).
inline Array activated_gate(const Layer& l, const Array& g) {
  const Array sigma = 1 / (1 + xt::exp(-g));
  switch (l.settings.gate_activation) {
  case GateActivation::softplus:
    return xt::maximum(g, 0.) + xt::log1p(xt::exp(-xt::abs(g)));
  case GateActivation::silu:
    return g * sigma;
  default:
    return sigma;
  }
}

/// The keys with the part that all heads share at their end, for latent attention.
inline Array with_shared_part(Array keys, const Array& shared) {
  const std::size_t d = keys.shape(3);
  xt::view(keys, all(), all(), all(), xt::range(d - shared.shape(2), d)) =
      xt::expand_dims(shared, 1);
  return keys;
}

/// All keys, or values: past, current, the learned extra one, zero.
inline Array joined(const Layer& l, const Tensor& past, const Array& current, const Tensor& extra) {
  const std::size_t P = l.dims.past, S = l.dims.S, heads = current.shape(1), d = current.shape(3);
  Array keys = xt::zeros<double>({l.dims.B, heads, l.dims.S_all, d});
  if (P > 0) xt::view(keys, all(), all(), xt::range(0, P)) = array(past);
  xt::view(keys, all(), all(), xt::range(P, P + S)) = current;
  if (!extra.empty()) xt::view(keys, all(), all(), P + S) = shaped(array(extra), {heads, d});
  return keys;
}

/// The key/value head that each query head reads.
inline Array for_query_heads(const Layer& l, const Array& k) {
  Array read = xt::zeros<double>({k.shape(0), l.dims.H, k.shape(2), k.shape(3)});
  for (std::size_t h = 0; h < l.dims.H; ++h)
    xt::view(read, all(), h) =
        xt::view(k, all(), l.kv_heads.empty() ? h * k.shape(1) / l.dims.H : l.kv_heads[h]);
  return read;
}

/// The contribution of each head to the output: head_out W_o[h], with the head's rows of W_o.
inline Array head_results(const Layer& l, const Array& heads) {
  const std::size_t H = heads.shape(1), d = heads.shape(3);
  if (!l.W_o.empty()) return product(heads, shaped(array(l.W_o), {H, d, l.W_o.shape()[1]}));
  Array results = xt::zeros<double>({heads.shape(0), H, heads.shape(2), H * d});
  for (std::size_t h = 0; h < H; ++h)
    xt::view(results, all(), h, all(), xt::range(h * d, (h + 1) * d)) = xt::view(heads, all(), h);
  return results;
}

/// The formulas of one layer. Each stage is computed when first requested.
class Formulas {
public:
  /// Throws Error for a feature that the textbook does not have.
  explicit Formulas(const Layer& layer) : l(layer) { refuse(); }
  /// A stage, always with the batch axis: the given value, or the result of its formula.
  const Array& at(Stage stage) {
    if (const auto known = stages_.find(stage); known != stages_.end()) return known->second;
    Array value = l.has_given(stage) ? given(stage) : formula(stage);
    return stages_[stage] = std::move(value);
  }

private:
  Array formula(Stage stage);
  Array own_keys();
  Array alpha();
  Array position_bias();
  Array shift();
  Array sinks() const { return shaped(array(l.sinks), {l.dims.H, 1}); }
  Array given(Stage stage) const;
  void refuse() const;

  const Layer& l;
  std::map<Stage, Array> stages_;
};

/// Computes a step from the preceding ones. A step that a layer does not have returns its input.
inline Array Formulas::formula(Stage stage) {
  using enum Stage;
  const Settings& s = l.settings;
  const Dims& d = l.dims;
  const double clip_q = l.q_norm_weight.empty() ? s.clip_qkv : 0;
  const double clip_k = l.k_norm_weight.empty() ? s.clip_qkv : 0;
  const bool naive = s.softmax == Softmax::naive, has_sinks = !l.sinks.empty();
  const bool turn_first = norms_after_rotation(l);
  // clang-format off
  switch (stage) {
  // Each token by itself.
  case x:      return input(l);                                                      // B, T, d_model
  case c_q:    return l.W_c_q.empty() ? at(x) : compressed(l, at(x), l.W_c_q, l.b_c_q, l.c_q_norm_weight);
  case c_kv:   return l.W_c_kv.empty() ? at(x) : compressed(l, at(x), l.W_c_kv, l.b_c_kv, l.c_kv_norm_weight);
  case k_pe:   return linear(at(x), l.W_k_pe, l.b_k_pe);                             // B, T, d_pe
  case q:      return clipped(split(linear(at(c_q), l.W_q, l.b_q), d.H), clip_q);    // B, H, T, d_k
  case k:      return clipped(l.W_k_pe.empty() ? own_keys() : with_shared_part(own_keys(), at(k_pe)), clip_k);
  case v:      return clipped(split(linear(l.X_v.empty() ? at(c_kv) : array(l.X_v), l.W_v, l.b_v), d.H_kv), s.clip_qkv);
  case q_norm: return l.q_norm_weight.empty() ? at(turn_first ? q_rope : q) : clipped(qk_normalised(l, at(turn_first ? q_rope : q), l.q_norm_weight, l.q_norm_bias), s.clip_qkv);
  case k_norm: return l.k_norm_weight.empty() ? at(turn_first ? k_rope : k) : clipped(qk_normalised(l, at(turn_first ? k_rope : k), l.k_norm_weight, l.k_norm_bias), s.clip_qkv);
  case v_norm: return l.v_norm_weight.empty() ? at(v) : rms_normalised(l, at(v), l.v_norm_weight);
  case q_rope: return rotated(l, at(turn_first ? q : q_norm));
  case k_rope: return rotated(l, at(turn_first ? k : k_norm));
  case k_all:  return joined(l, l.k_past, at(turn_first ? k_norm : k_rope), l.k_extra); // B, H_kv, S_all, d_k
  case v_all:  return joined(l, l.v_past, at(v_norm), l.v_extra);                         // B, H_kv, S_all, d_v

  // Tokens meet. All of B, H, T, S_all, but for a row's one number.
  case scores: return product(at(turn_first ? q_norm : q_rope), xt::transpose(for_query_heads(l, at(k_all)), {0, 1, 3, 2}));
  case scaled: return scale(l) * (s.temperature == 0 ? at(scores) : Array(at(scores) * temperatures(l)));
  case capped: return s.softcap == 0 ? at(scaled) : Array(s.softcap * xt::tanh(at(scaled) / s.softcap));
  case biased: return at(capped) + position_bias();
  case masked: return xt::where(hidden(l), -infinity, at(biased) + added_masks(l));
  case row_max: {
    const Array max = largest(at(masked));
    return has_sinks ? Array(xt::where(max < sinks(), sinks(), max)) : max;          // B, H, T
  }
  case shifted: return naive ? at(masked) : Array(at(masked) - xt::expand_dims(shift(), 3));
  case exp:     return xt::exp(at(shifted));
  case row_sum: {
    const Array sum = xt::sum(at(exp), {3});
    return has_sinks ? Array(sum + xt::exp(sinks() - shift())) : sum;
  }
  case logsumexp: return (naive ? Array(0.) : at(row_max)) + xt::log(at(row_sum));
  case weights:  return alpha();
  case head_out: return product(at(weights), for_query_heads(l, at(v_all)));         // B, H, T, d_v

  case head_norm: return l.head_norm_weight.empty() ? at(head_out) : rms_normalised(l, at(head_out), l.head_norm_weight);
  case gate:     return split(linear(at(x), l.W_gate, l.b_gate), d.H);               // B, H, T, d_v or 1
  case gated:    return l.W_gate.empty() && !l.has_given(gate) ? at(head_norm) : Array(at(head_norm) * activated_gate(l, at(gate)));

  // The heads side by side.
  case head_result: return head_results(l, at(gated));                               // B, H, T, d_out
  case concat:   return side_by_side(at(gated));                                     // B, T, H·d_v
  case output:   return linear(at(concat), l.W_o, l.b_o);                             // B, T, d_out
  case residual: return array(l.X) + at(output);
  default:       fail("the textbook has no {}", name_of(stage));
  }
  // clang-format on
}

/// exp / row_sum; what masked_rows has of a query that sees nothing.
inline Array Formulas::alpha() {
  const Array sums = at(Stage::row_sum);
  const Booleans nothing = xt::equal(sums, 0.) && sees_nothing(l);
  const MaskedRows masked_rows = l.settings.masked_rows;
  const double instead = masked_rows == MaskedRows::zero  ? 0
                         : masked_rows == MaskedRows::nan ? std::nan("")
                                                          : 1 / real(l.dims.S_all);
  return xt::where(xt::expand_dims(nothing, 3), instead,
                   at(Stage::exp) / xt::expand_dims(sums, 3));
}

/// Keys of B, H_kv, S, d_k, before heads share a part of them.
inline Array Formulas::own_keys() {
  const Array x = l.X_k.empty() ? at(Stage::c_kv) : array(l.X_k);
  return split(linear(x, l.W_k, l.b_k), l.dims.H_kv);
}

/// The sum of everything that `biased` adds.
inline Array Formulas::position_bias() {
  Array bias = explicit_bias(l);
  auto of_positions = xt::view(bias, all(), all(), all(), xt::range(0, l.dims.past + l.dims.S));
  if (l.settings.alibi != Alibi::none) of_positions += alibi(l);
  const Stage last_query = norms_after_rotation(l) ? Stage::q_norm : Stage::q_rope;
  if (!l.relative_key.empty())
    of_positions += relative_key(l, at(last_query), for_query_heads(l, at(Stage::k_all)));
  return bias;
}

/// The number subtracted from each row: its maximum, or 0 for the naive softmax and for rows that
/// attend to no key.
inline Array Formulas::shift() {
  const Array& max = at(Stage::row_max);
  if (l.settings.softmax == Softmax::naive) return xt::zeros_like(max);
  return xt::where(xt::equal(max, -infinity) && sees_nothing(l), 0., max);
}

/// A given stage. In one with heads and tokens, the heads are side by side.
inline Array Formulas::given(Stage stage) const {
  const Array value = array(l.given[index_of(stage)]);
  const StageInfo& info = info_of(stage);
  const bool is_packed = info.kind == Kind::token && info.letters.size() == 3;
  return is_packed ? split(value, l.dims.size_of(info.letters[0])) : value;
}

inline void Formulas::refuse() const {
  for (const Stage stage : l.patches.stages)
    fail("<patch> {}: the textbook has no edits of stages; leave this one out", name_of(stage));
  if (!l.lengths.empty())
    fail("the textbook does not compute texts of several lengths at once: give one text");
}

/// Computes stages of a layer in the shapes of layer.shape_of(stage). Throws Error for what the
/// textbook does not have: an edited stage, texts of several lengths, stages outside attention.
inline std::map<Stage, Array> compute(const Layer& layer, const std::vector<Stage>& stages) {
  Formulas formulas(layer);
  std::map<Stage, Array> values;
  for (const Stage stage : stages) {
    Array value = formulas.at(stage);
    if (layer.settings.columns && info_of(stage).kind != Kind::row) {
      Shape order(value.dimension());
      std::iota(order.begin(), order.end(), std::size_t{0});
      std::swap(order.end()[-1], order.end()[-2]);
      value = Array(xt::transpose(value, order));
    }
    values[stage] = shaped(std::move(value), layer.shape_of(stage));
  }
  return values;
}

} // namespace mha::textbook
