#include "support/planted.hpp"

#include "stage.hpp"
#include "support/reference_positions.hpp"
#include "tensor.hpp"

#include <algorithm>
#include <cmath>

namespace planted {

using reference::Array;
using reference::infinity;
using reference::Layer;
using reference::real;

namespace {

std::size_t place_of(const std::string& stage) {
  return mha::index_of(mha::stage_named(stage));
}

} // namespace

Stages Implementation::run() const {
  Layer made = layer;
  std::vector<Step> ordered = steps;
  std::stable_sort(ordered.begin(), ordered.end(), [](const Step& a, const Step& b) {
    return place_of(a.stage) < place_of(b.stage);
  });
  for (const Step& step : ordered)
    made.given[step.stage] = step.value(*this, reference::compute(made));
  Stages stages = reference::compute(made);
  for (const auto& show : shown) show(*this, stages);
  return stages;
}

Implementation Implementation::until(const std::string& stage) const {
  Implementation before{layer, {}, {}};
  for (const Step& step : steps)
    if (place_of(step.stage) < place_of(stage)) before.steps.push_back(step);
  return before;
}

namespace {

// --- layers that the mistakes are about

bool always(Layer&, Random&) {
  return true;
}

bool with_rope(Layer& layer, Random&) {
  if (layer.rope == reference::Rope::none) layer.rope = reference::Rope::half;
  return true;
}

bool with_norm(Layer& layer, Random& random) {
  if (layer.q_norm_weight.empty()) {
    layer.q_norm_weight = numbers(random, {layer.d_k}, 0.4, 1.6);
    layer.k_norm_weight = numbers(random, {layer.d_k}, 0.4, 1.6);
  }
  return true;
}

bool with_norm_and_rope(Layer& layer, Random& random) {
  return with_norm(layer, random) && with_rope(layer, random);
}

bool with_softcap(Layer& layer, Random&) {
  layer.softcap = 1.5;
  return true;
}

bool causal(Layer& layer, Random&) {
  layer.causal = true;
  return true;
}

/// Where the corners of the scores are different ones.
bool with_more_keys(Layer& layer, Random& random) {
  if (layer.S_all() == layer.T()) {
    layer.k_past = numbers(random, {layer.B(), layer.H_kv, 3, layer.d_k}, -1.5, 1.5);
    layer.v_past = numbers(random, {layer.B(), layer.H_kv, 3, layer.d_v}, -1.5, 1.5);
  }
  layer.causal = true;
  return true;
}

bool aligned_bottom_right(Layer& layer, Random& random) {
  layer.align = reference::Align::bottom_right;
  return with_more_keys(layer, random);
}

bool aligned_top_left(Layer& layer, Random& random) {
  layer.align = reference::Align::top_left;
  return with_more_keys(layer, random);
}

bool with_mask(Layer& layer, Random& random) {
  if (!layer.blocked.empty()) return true;
  layer.blocked = Array({1, 1, layer.T(), layer.S()});
  for (double& value : layer.blocked.values) value = random.chance(0.3) ? 1 : 0;
  for (std::size_t t = 0; t < layer.T(); ++t)
    layer.blocked(std::size_t{0}, std::size_t{0}, t, std::size_t{0}) = 0;
  return true;
}

bool with_window(Layer& layer, Random&) {
  layer.causal = true;
  layer.window_left = 2;
  return true;
}

bool with_padding(Layer& layer, Random&) {
  layer.padding = Array({layer.B(), layer.S()});
  for (std::size_t b = 0; b < layer.B(); ++b)
    for (std::size_t j = layer.S() - 2 - b; j < layer.S(); ++j) layer.padding(b, j) = 1;
  return true;
}

// --- mistakes in weights

void read_turned(Array& W) {
  const Array from = W;
  for (std::size_t i = 0; i < W.shape[0]; ++i)
    for (std::size_t o = 0; o < W.shape[1]; ++o) W(i, o) = from.values[o * W.shape[0] + i];
}

/// The columns of q, k and v side by side: q0 q1 … k0 … v0 …, taken apart in the order of `runs`.
void take_apart(Layer& layer, const std::string& order) {
  const auto column = [&](const Array& array, std::size_t row, std::size_t i) {
    return array.shape.size() == 1 ? array(i) : array(row, i);
  };
  const auto each_kind = [&](Array& q, Array& k, Array& v) {
    const std::size_t rows = q.shape.size() == 1 ? 1 : q.shape[0], d = layer.d_k;
    for (std::size_t row = 0; row < rows; ++row) {
      std::vector<double> fused;
      for (const Array* part : {&q, &k, &v})
        for (std::size_t i = 0; i < part->shape.back(); ++i) fused.push_back(column(*part, row, i));
      std::size_t at = 0;
      std::map<char, std::vector<double>> parts;
      const auto take = [&](char part, std::size_t n) {
        for (std::size_t i = 0; i < n; ++i) parts[part].push_back(fused[at++]);
      };
      if (order == "groups")
        for (std::size_t g = 0; g < layer.H_kv; ++g)
          take('Q', layer.H / layer.H_kv * d), take('K', d), take('V', d);
      else
        for (char part : order) take(part, (part == 'Q' ? layer.H : layer.H_kv) * d);
      for (const auto& [part, array] : {std::pair('Q', &q), {'K', &k}, {'V', &v}})
        for (std::size_t i = 0; i < array->shape.back(); ++i)
          array->values[row * array->shape.back() + i] = parts[part][i];
    }
  };
  each_kind(layer.W_q, layer.W_k, layer.W_v);
  each_kind(layer.b_q, layer.b_k, layer.b_v);
}

bool one_matrix(Layer& layer, Random&) {
  return layer.X_k.empty() && layer.d_k == layer.d_v;
}
bool one_matrix_of_heads(Layer& layer, Random&) {
  return layer.X_k.empty() && layer.d_k == layer.d_v && layer.H == layer.H_kv;
}
bool one_matrix_of_groups(Layer& layer, Random&) {
  return layer.X_k.empty() && layer.d_k == layer.d_v && layer.H != layer.H_kv;
}

void interleave(Array& W, Array& bias, std::size_t heads) {
  const Array W_from = W, bias_from = bias;
  const std::size_t d = W.shape[1] / heads;
  for (std::size_t h = 0; h < heads; ++h)
    for (std::size_t i = 0; i < d; ++i) {
      bias(h * d + i) = bias_from(i * heads + h);
      for (std::size_t c = 0; c < W.shape[0]; ++c) W(c, h * d + i) = W_from(c, i * heads + h);
    }
}

/// Key/value heads 0, 1, 0, 1, …: one for each query head. What is shown keeps its H_kv heads.
void tile(Implementation& other) {
  const auto tiled = [](const Array& all, std::size_t heads) {
    Array to({all.shape[0], heads, all.shape[2], all.shape[3]});
    for (std::size_t b = 0; b < to.shape[0]; ++b)
      for (std::size_t h = 0; h < heads; ++h)
        for (std::size_t j = 0; j < to.shape[2]; ++j)
          for (std::size_t i = 0; i < to.shape[3]; ++i)
            to(b, h, j, i) = all(b, h % all.shape[1], j, i);
    return to;
  };
  const Stages own = other.run();
  const std::string last_k = own.count("k_all")    ? "k_all"
                             : own.count("k_rope") ? "k_rope"
                             : own.count("k_norm") ? "k_norm"
                                                   : "k";
  const std::string last_v = own.count("v_all") ? "v_all" : "v";
  const std::size_t H = other.layer.H;
  for (const std::string& last : {last_k, last_v}) {
    other.steps.push_back({last, [=](const Implementation& self, const Stages&) {
                             return tiled(self.until(last).run().at(last), H);
                           }});
    other.shown.push_back([=](const Implementation& self, Stages& stages) {
      stages[last] = self.until(last).run().at(last);
    });
  }
}

// --- mistakes in positions and norms

Array rms_normed(const Array& q, const Array& weight, double eps, bool one_plus) {
  Array y(q.shape);
  for (std::size_t b = 0; b < q.shape[0]; ++b)
    for (std::size_t h = 0; h < q.shape[1]; ++h)
      for (std::size_t t = 0; t < q.shape[2]; ++t) {
        double mean = 0;
        for (std::size_t i = 0; i < q.shape[3]; ++i)
          mean += q(b, h, t, i) * q(b, h, t, i) / real(q.shape[3]);
        for (std::size_t i = 0; i < q.shape[3]; ++i)
          y(b, h, t, i) = q(b, h, t, i) / std::sqrt(mean + eps) * (weight(i) + (one_plus ? 1 : 0));
      }
  return y;
}

void normalise_after_rope(Implementation& other) {
  other.steps.push_back({"q_rope", [](const Implementation& self, const Stages& s) {
                           const Layer& l = self.layer;
                           return rms_normed(rotated(l, s.at("q")), l.q_norm_weight, l.qk_norm_eps,
                                             l.one_plus);
                         }});
  other.steps.push_back({"k_rope", [](const Implementation& self, const Stages& s) {
                           const Layer& l = self.layer;
                           return rms_normed(rotated(l, s.at("k")), l.k_norm_weight, l.qk_norm_eps,
                                             l.one_plus);
                         }});
  other.shown.push_back([](const Implementation& self, Stages& s) { // the operations' names
    s["q_norm"] = s["q_rope"], s["k_norm"] = s["k_rope"];
    s["q_rope"] = rotated(self.layer, s["q"]), s["k_rope"] = rotated(self.layer, s["k"]);
  });
}

Array repeated(const Array& weight, std::size_t heads) {
  Array all({heads * weight.shape[0]});
  for (std::size_t i = 0; i < all.values.size(); ++i)
    all.values[i] = weight.values[i % weight.values.size()];
  return all;
}

// --- mistakes in the scores

void cap_after_mask(Implementation& other) {
  const auto uncapped = [](const Implementation& self) {
    Implementation before = self.until("capped");
    before.layer.softcap = 0;
    return before.run();
  };
  const double cap = other.layer.softcap;
  other.steps.push_back({"masked", [=](const Implementation& self, const Stages&) {
                           Array capped = uncapped(self).at("masked");
                           for (double& a : capped.values) a = cap * std::tanh(a / cap);
                           return capped;
                         }});
  other.shown.push_back([=](const Implementation& self, Stages& s) { // the operations' names
    const Stages before = uncapped(self);
    s["capped"] = s["masked"];
    s["masked"] = before.at("masked");
    if (before.count("biased")) s["biased"] = before.at("biased");
  });
}

/// Hides what `hides(b, t, j)` says, too. `offset`: of the diagonal.
void block(Layer& layer, const std::function<bool(double query, double key)>& hides) {
  const double offset = layer.align == reference::Align::top_left ? 0
                        : layer.align == reference::Align::bottom_right
                            ? real(layer.P() + layer.S()) - real(layer.T())
                            : real(layer.P());
  Array mask({layer.B(), 1, layer.T(), layer.S_all()});
  for (std::size_t b = 0; b < layer.B(); ++b)
    for (std::size_t t = 0; t < layer.T(); ++t)
      for (std::size_t j = 0; j < layer.S_all(); ++j) {
        const bool before = !layer.blocked.empty() &&
                            (layer.blocked.shape[3] == 1 || j < layer.blocked.shape[3]) &&
                            layer.blocked.broadcast(b, 0, t, j) != 0;
        mask(b, std::size_t{0}, t, j) = before || hides(real(t) + offset, real(j)) ? 1 : 0;
      }
  layer.blocked = mask;
}

// --- mistakes in the softmax and after it

void drop_rows(const Implementation&, Stages& stages) {
  for (const char* name : {"row_max", "shifted", "exp", "row_sum", "logsumexp"}) stages.erase(name);
}

Array softmax_over_queries(const Implementation&, const Stages& s) {
  const Array& masked = s.at("masked");
  Array weights(masked.shape);
  for (std::size_t b = 0; b < masked.shape[0]; ++b)
    for (std::size_t h = 0; h < masked.shape[1]; ++h)
      for (std::size_t j = 0; j < masked.shape[3]; ++j) {
        double total = 0;
        for (std::size_t t = 0; t < masked.shape[2]; ++t) total += std::exp(masked(b, h, t, j));
        for (std::size_t t = 0; t < masked.shape[2]; ++t)
          weights(b, h, t, j) = total > 0 ? std::exp(masked(b, h, t, j)) / total : 0;
      }
  return weights;
}

Array mean_over_heads(const Implementation&, const Stages& s) {
  const Array& from = s.at("weights");
  Array mean(from.shape);
  for (std::size_t b = 0; b < from.shape[0]; ++b)
    for (std::size_t h = 0; h < from.shape[1]; ++h)
      for (std::size_t other = 0; other < from.shape[1]; ++other)
        for (std::size_t t = 0; t < from.shape[2]; ++t)
          for (std::size_t j = 0; j < from.shape[3]; ++j)
            mean(b, h, t, j) += from(b, other, t, j) / real(from.shape[1]);
  return mean;
}

Array with_dropout(const Implementation&, const Stages& s) {
  Array weights = s.at("weights");
  Random random(77);
  constexpr double p = 0.2;
  for (double& w : weights.values) w = random.chance(p) ? 0 : w / (1 - p);
  return weights;
}

Array unmerged(const Implementation&, const Stages& s) {
  const Array& head_out = s.at("head_out"); // B, H, T, d
  Array concat({head_out.shape[0], head_out.shape[2], head_out.shape[1] * head_out.shape[3]});
  concat.values = head_out.values;
  return concat;
}

void read_columns(Array& X) {
  if (X.empty()) return;
  const Array from = X;
  for (std::size_t b = 0; b < X.shape[0]; ++b)
    for (std::size_t t = 0; t < X.shape[1]; ++t)
      for (std::size_t i = 0; i < X.shape[2]; ++i)
        X(b, t, i) = from.values[b * X.shape[1] * X.shape[2] + i * X.shape[1] + t];
}

/// Every tensor and every step rounded to half precision.
void round_all(Implementation& other, bool half) {
  const auto round = [half](double a) -> double {
    const float single = static_cast<float>(a);
    return half ? mha::from_half(mha::to_half(single))
                : mha::from_bfloat16(mha::to_bfloat16(single));
  };
  Layer& layer = other.layer;
  for (Array* array : {&layer.X, &layer.X_k, &layer.X_v, &layer.W_q, &layer.W_k, &layer.W_v,
                       &layer.W_o, &layer.b_q, &layer.b_k, &layer.b_v, &layer.b_o})
    for (double& value : array->values) value = round(value);
  for (const char* stage :
       {"q", "k", "v", "q_norm", "k_norm", "q_rope", "k_rope", "scores", "scaled", "capped",
        "biased", "masked", "weights", "head_out", "output"}) {
    if (!reference::compute(layer).count(stage)) continue;
    other.steps.push_back(
        {stage, [stage = std::string(stage), round](const Implementation&, const Stages& s) {
           Array rounded = s.at(stage);
           for (double& value : rounded.values) value = round(value);
           return rounded;
         }});
  }
}

} // namespace

const std::vector<Mistake>& mistakes() {
  using I = Implementation;
  const auto square_out = [](Layer& l, Random&) { return l.W_o.shape[0] == l.W_o.shape[1]; };
  const auto same_kv = [](Layer& l, Random&) { return l.W_k.shape == l.W_v.shape; };
  const auto same_qk = [](Layer& l, Random&) { return l.W_q.shape == l.W_k.shape; };
  const auto to_model = [](Layer& l, Random&) { return l.W_o.shape[1] == l.X.shape[2]; };
  static const std::vector<Mistake> list{
      {"weight.transposed.q", "q", always, [](I& o) { read_turned(o.layer.W_q); }},
      {"weight.transposed.k", "k", always, [](I& o) { read_turned(o.layer.W_k); }},
      {"weight.transposed.v", "v", always, [](I& o) { read_turned(o.layer.W_v); }},
      {"weight.transposed.o", "output", always, [](I& o) { read_turned(o.layer.W_o); }},
      {"weight.order.QVK", "k", one_matrix, [](I& o) { take_apart(o.layer, "QVK"); }},
      {"weight.order.KQV", "q", one_matrix, [](I& o) { take_apart(o.layer, "KQV"); }},
      {"weight.order.VKQ", "q", one_matrix, [](I& o) { take_apart(o.layer, "VKQ"); }},
      {"weight.order.per_head", "q", one_matrix_of_heads,
       [](I& o) { take_apart(o.layer, "groups"); }},
      {"weight.order.per_group", "q", one_matrix_of_groups,
       [](I& o) { take_apart(o.layer, "groups"); }},
      {"swap.kv", "k", same_kv,
       [](I& o) { std::swap(o.layer.W_k, o.layer.W_v), std::swap(o.layer.b_k, o.layer.b_v); }},
      {"swap.qk", "q", same_qk,
       [](I& o) { std::swap(o.layer.W_q, o.layer.W_k), std::swap(o.layer.b_q, o.layer.b_k); }},
      {"heads.interleaved.q", "q", always,
       [](I& o) { interleave(o.layer.W_q, o.layer.b_q, o.layer.H); }},
      {"heads.interleaved.k", "k", always,
       [](I& o) { interleave(o.layer.W_k, o.layer.b_k, o.layer.H_kv); }},
      {"heads.interleaved.v", "v", always,
       [](I& o) { interleave(o.layer.W_v, o.layer.b_v, o.layer.H_kv); }},
      {"heads.unmerged", "concat", always,
       [](I& o) {
         o.steps.push_back({"concat", unmerged});
       }},
      {"gqa.tiled", "scores", [](Layer& l, Random&) { return l.H_kv > 1 && l.H_kv < l.H; }, tile},
      {"bias.missing.q", "q", always, [](I& o) { o.layer.b_q = {}; }},
      {"bias.missing.k", "k", always, [](I& o) { o.layer.b_k = {}; }},
      {"bias.missing.v", "v", always, [](I& o) { o.layer.b_v = {}; }},
      {"bias.missing.o", "output", always, [](I& o) { o.layer.b_o = {}; }},
      {"scale.missing", "scaled", always, [](I& o) { o.layer.scale = 1; }},
      {"scale.twice", "scaled", always, [](I& o) { o.layer.scale *= o.layer.scale; }},
      {"scale.d_model", "scaled", always,
       [](I& o) { o.layer.scale = 1 / std::sqrt(real(o.layer.X.shape[2])); }},
      {"scale.d_k", "scaled", always, [](I& o) { o.layer.scale = 1 / real(o.layer.d_k); }},
      {"scale.constant", "scaled", always, [](I& o) { o.layer.scale = 0.2718; }},
      {"rope.missing", "scores", with_rope, [](I& o) { o.layer.rope = reference::Rope::none; }},
      {"rope.style", "q_rope", with_rope,
       [](I& o) { o.layer.rope = reference::Rope::interleaved; }},
      {"rope.base", "q_rope", with_rope, [](I& o) { o.layer.rope_base = 1000; }},
      {"rope.dims", "q_rope", with_rope, [](I& o) { o.layer.rope_dims = 2; }},
      {"rope.offset", "q_rope", with_rope,
       [](I& o) {
         o.layer.has_rope_offset = true;
         o.layer.rope_offset = static_cast<std::int64_t>(o.layer.P()) + 1;
       }},
      {"norm.missing", "scores", with_norm,
       [](I& o) { o.layer.q_norm_weight = {}, o.layer.k_norm_weight = {}; }},
      {"norm.after_rope", "q_norm", with_norm_and_rope, normalise_after_rope},
      {"norm.one_plus", "q_norm", with_norm, [](I& o) { o.layer.one_plus = true; }},
      {"norm.full", "q_norm", with_norm,
       [](I& o) {
         o.layer.q_norm_weight = repeated(o.layer.q_norm_weight, o.layer.H);
         o.layer.k_norm_weight = repeated(o.layer.k_norm_weight, o.layer.H_kv);
       }},
      {"softcap.missing", "masked", with_softcap, [](I& o) { o.layer.softcap = 0; }},
      {"softcap.after_mask", "capped",
       [](Layer& l, Random& r) { return with_softcap(l, r) && with_mask(l, r); }, cap_after_mask},
      {"alibi.missing", "masked",
       [](Layer& l, Random&) { return l.alibi = reference::Alibi::paper, true; },
       [](I& o) { o.layer.alibi = reference::Alibi::none; }},
      {"alibi.form", "biased",
       [](Layer& l, Random&) { return l.alibi = reference::Alibi::paper, true; },
       [](I& o) { o.layer.alibi = reference::Alibi::falcon; }},
      {"mask.missing", "masked", with_mask,
       [](I& o) { o.layer.mask = {}, o.layer.blocked = {}, o.layer.padding = {}; }},
      {"mask.inverted", "masked", with_mask,
       [](I& o) {
         for (double& value : o.layer.blocked.values) value = value == 0 ? 1 : 0;
       }},
      {"causal.missing", "masked", causal, [](I& o) { o.layer.causal = false; }},
      {"causal.top_left", "masked", aligned_bottom_right,
       [](I& o) { o.layer.align = reference::Align::top_left; }},
      {"causal.bottom_right", "masked", aligned_top_left,
       [](I& o) { o.layer.align = reference::Align::bottom_right; }},
      {"causal.strict", "masked", causal,
       [](I& o) { block(o.layer, [](double query, double key) { return key >= query; }); }},
      {"causal.plus_one", "masked", causal,
       [](I& o) {
         o.layer.causal = false;
         block(o.layer, [](double query, double key) { return key > query + 1; });
       }},
      {"window.plus_one", "masked", with_window, [](I& o) { ++o.layer.window_left; }},
      {"window.minus_one", "masked", with_window, [](I& o) { --o.layer.window_left; }},
      {"padding.side", "masked", with_padding,
       [](I& o) {
         const Array from = o.layer.padding;
         const std::size_t S = from.shape[1];
         for (std::size_t b = 0; b < from.shape[0]; ++b)
           for (std::size_t j = 0; j < S; ++j) o.layer.padding(b, j) = from(b, S - 1 - j);
       }},
      {"softmax.axis", "weights", always,
       [](I& o) {
         o.steps.push_back({"weights", softmax_over_queries});
         o.shown.push_back(drop_rows);
       }},
      {"sinks.missing", "row_max",
       [](Layer& l, Random& r) { return l.sinks = numbers(r, {l.H}, 0, 2), true; },
       [](I& o) { o.layer.sinks = {}; }},
      {"dropout.on", "weights", always,
       [](I& o) {
         o.steps.push_back({"weights", with_dropout});
       }},
      {"weights.averaged", "weights", always,
       [](I& o) {
         o.steps.push_back({"weights", mean_over_heads});
       }},
      {"output.missing", "output", square_out, [](I& o) { o.layer.W_o = {}, o.layer.b_o = {}; }},
      {"output.transposed", "output", square_out, [](I& o) { read_turned(o.layer.W_o); }},
      {"residual.missing", "residual",
       [](Layer& l, Random&) { return l.residual = l.W_o.shape[1] == l.X.shape[2]; },
       [](I& o) {
         o.shown.push_back([](const Implementation&, Stages& s) { s["residual"] = s["output"]; });
       }},
      {"residual.added", "output", to_model,
       [](I& o) {
         const Array X = o.layer.X;
         o.shown.push_back([X](const Implementation&, Stages& s) {
           for (std::size_t i = 0; i < X.values.size(); ++i) s["output"].values[i] += X.values[i];
         });
       }},
      {"layout.columns", "x", always,
       [](I& o) { read_columns(o.layer.X), read_columns(o.layer.X_k), read_columns(o.layer.X_v); }},
      {"precision.f16", "", always, [](I& o) { round_all(o, true); }},
      {"precision.bf16", "", always, [](I& o) { round_all(o, false); }},
  };
  return list;
}

} // namespace planted
