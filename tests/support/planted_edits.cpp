#include "support/planted_edits.hpp"

#include "support/reference_positions.hpp"
#include <mha/tensor/tensor.hpp>

#include <cmath>

namespace planted {

using reference::Array;
using reference::Layer;
using reference::real;

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

namespace {

Array rms_normed(const Array& q, const Array& weight, double eps, bool one_plus) {
  if (weight.values.empty()) return q; // another mistake left it out
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

} // namespace

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

void normalise_after_rope_by_place(Implementation& other) {
  normalise_after_rope(other);
  other.shown.back() = [](const Implementation&, Stages& s) {
    s["q_norm"] = s["q"], s["k_norm"] = s["k"];
  };
}

Array repeated(const Array& weight, std::size_t heads) {
  Array all({heads * weight.shape[0]});
  for (std::size_t i = 0; i < all.values.size(); ++i)
    all.values[i] = weight.values[i % weight.values.size()];
  return all;
}

// --- mistakes in the scores

void cap_before_scale(Implementation& other) {
  const double cap = other.layer.softcap;
  other.steps.push_back({"scaled", [=](const Implementation&, const Stages& s) {
                           Array capped = s.at("scores");
                           for (double& a : capped.values) a = cap * std::tanh(a / cap);
                           return capped;
                         }});
  other.steps.push_back({"capped", [](const Implementation& self, const Stages& s) {
                           Array scaled = s.at("scaled");
                           for (double& a : scaled.values) a *= self.layer.scale;
                           return scaled;
                         }});
  other.shown.push_back([](const Implementation&, Stages& s) { // the operations' names
    std::swap(s["scaled"], s["capped"]);
  });
}

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

/// Hides what `hides(b, t, j)` chooses, too. `offset`: of the diagonal.
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

} // namespace planted
