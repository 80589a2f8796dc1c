// Mistakes of ports that write a layer anew: denominators, parts of keys joined, biases and weights
// whose heads are elsewhere, batch items taken for tokens, latents without their norms.

#include "support/planted_edits.hpp"
#include "support/planted_more.hpp"
#include "support/reference_positions.hpp"

#include <algorithm>
#include <cmath>

namespace planted {

using reference::Array;
using reference::infinity;
using reference::Layer;
using reference::real;

namespace {

using I = Implementation;
constexpr std::size_t zero = 0;

bool self_attention(Layer& layer, Random&) {
  return layer.X_k.empty();
}

/// Weights made of a row's masked scores: f(score, greatest score, Σ e^(score − greatest)).
template <class F> std::function<void(I&)> weights_by(F f) {
  return [f](I& other) {
    other.steps.push_back({"weights", [f](const I&, const Stages& s) {
                             const Array& a = s.at("masked");
                             return reference::each(a, [&](double score, std::size_t b,
                                                           std::size_t h, std::size_t t,
                                                           std::size_t) {
                               double max = -infinity, sum = 0;
                               for (std::size_t j = 0; j < a.shape[3]; ++j)
                                 max = std::max(max, a(b, h, t, j));
                               for (std::size_t j = 0; j < a.shape[3]; ++j)
                                 sum += std::exp(a(b, h, t, j) - max);
                               return std::isinf(max) ? 0 : f(score, max, sum);
                             });
                           }});
    other.shown.push_back(drop_rows);
  };
}

/// Adds f(parts, part) times each part's output.
template <class F> std::function<void(I&)> joined_by(std::size_t size, F f) {
  return [size, f](I& other) {
    other.steps.push_back(
        {"head_out", [size, f](const I&, const Stages& s) {
           return reference::each(s.at("head_out"), [&](double, std::size_t b, std::size_t h,
                                                        std::size_t t, std::size_t i) {
             const std::vector<PartOfKeys> parts = parts_of_keys(s, size, b, h, t);
             double sum = 0;
             for (const PartOfKeys& part : parts) sum += f(parts, part) * part.out[i];
             return sum;
           });
         }});
  };
}

/// Another head for each head, none its own.
std::size_t other_head(std::size_t h, std::size_t heads) {
  return (h + heads - 1) % heads;
}
Array with_heads_moved(const Array& bias, std::size_t heads) {
  Array moved = bias;
  const std::size_t d = bias.values.size() / heads;
  for (std::size_t h = 0; h < heads; ++h)
    for (std::size_t i = 0; i < d; ++i) moved(h * d + i) = bias(other_head(h, heads) * d + i);
  return moved;
}

/// The neighbours of each pair in a head brought to its two halves.
Array pairs_apart(const Array& bias, std::size_t heads) {
  Array apart = bias;
  const std::size_t d = bias.values.size() / heads;
  for (std::size_t h = 0; h < heads; ++h)
    for (std::size_t i = 0; i < d / 2; ++i) {
      apart(h * d + i) = bias(h * d + 2 * i);
      apart(h * d + d / 2 + i) = bias(h * d + 2 * i + 1);
    }
  return apart;
}

/// Its memory as a matrix for each head, one after the other.
void read_heads_first(Array& W, std::size_t heads) {
  const Array from = W;
  const std::size_t in = W.shape[0], d = W.shape[1] / heads;
  for (std::size_t h = 0; h < heads; ++h)
    for (std::size_t i = 0; i < in; ++i)
      for (std::size_t c = 0; c < d; ++c) W(i, h * d + c) = from.values[(h * in + i) * d + c];
}

bool unmasked(Layer& layer, Random&) {
  return layer.X_k.empty() && layer.blocked.empty() && layer.mask.empty();
}

/// The head outputs of a layer whose batch items are the tokens and whose tokens are the items.
Array attended_over_items(const I& self, const Stages& s) {
  Layer turned = self.layer;
  turned.given.clear();
  const Array& X = self.layer.X;
  turned.X = Array({X.shape[1], X.shape[0], X.shape[2]});
  for (std::size_t b = 0; b < X.shape[0]; ++b)
    for (std::size_t t = 0; t < X.shape[1]; ++t)
      for (std::size_t i = 0; i < X.shape[2]; ++i) turned.X(t, b, i) = X(b, t, i);
  const Array out = reference::compute(turned).at("head_out"); // T, H, B, d
  return reference::each(s.at("head_out"), [&](double, std::size_t b, std::size_t h, std::size_t t,
                                               std::size_t i) { return out(t, h, b, i); });
}

bool with_latents(Layer& layer, Random& random) {
  if (!layer.X_k.empty() || layer.H != layer.H_kv) return false;
  const std::size_t d_model = layer.X.shape[2];
  layer.d_pe = 2;
  layer.W_k = layer.W_v = layer.b_k = layer.b_v = {};
  layer.W_q_a = numbers(random, {d_model, 9}, -0.9, 0.9),
  layer.q_a_norm = numbers(random, {9}, 0.5, 2);
  layer.W_q = numbers(random, {9, layer.H * layer.d_k}, -0.7, 0.7);
  layer.W_kv_a = numbers(random, {d_model, 7}, -0.9, 0.9),
  layer.kv_a_norm = numbers(random, {5}, 0.5, 2);
  layer.W_kv_b = numbers(random, {5, layer.H * (layer.d_k - 2 + layer.d_v)}, -0.8, 0.8);
  return true;
}

/// x W, of as many columns as the stage has, without its norm.
std::function<Array(const I&, const Stages&)> not_normalised(const char* stage, Array Layer::*W) {
  return [stage, W](const I& self, const Stages& s) {
    const Array& x = s.at("x");
    Array rows = s.at(stage);
    for (std::size_t b = 0; b < rows.shape[0]; ++b)
      for (std::size_t t = 0; t < rows.shape[1]; ++t)
        for (std::size_t i = 0; i < rows.shape[2]; ++i) {
          rows(b, t, i) = 0;
          for (std::size_t j = 0; j < x.shape[2]; ++j)
            rows(b, t, i) += x(b, t, j) * (self.layer.*W)(j, i);
        }
    return rows;
  };
}

} // namespace

std::vector<PartOfKeys> parts_of_keys(const Stages& s, std::size_t size, std::size_t b,
                                      std::size_t h, std::size_t t) {
  const Array &a = s.at("masked"), &v = s.at("v");
  const std::size_t group = a.shape[1] / v.shape[1];
  std::vector<PartOfKeys> parts;
  for (std::size_t first = 0; first < a.shape[3]; first += size) {
    PartOfKeys part{std::vector<double>(v.shape[3], 0.0), 0, -infinity};
    double sum = 0;
    for (std::size_t j = first; j < std::min(first + size, a.shape[3]); ++j) {
      const double e = std::exp(a(b, h, t, j));
      sum += e, part.max = std::max(part.max, a(b, h, t, j));
      for (std::size_t i = 0; i < v.shape[3]; ++i) part.out[i] += e * v(b, h / group, j, i);
    }
    if (sum == 0) continue; // hidden entirely
    for (double& x : part.out) x /= sum;
    part.lse = std::log(sum);
    parts.push_back(part);
  }
  return parts;
}

std::vector<Mistake> port_mistakes() {
  const auto same_heads = [](Layer& l, Random&) { return l.H == l.H_kv; };
  const auto grouped_rope = [](Layer& l, Random&) { return l.rope != reference::Rope::none; };
  const auto items = [](Layer& l, Random& r) { return unmasked(l, r) && l.B() > 1; };
  const auto one_item = [](Layer& l, Random& r) { return unmasked(l, r) && l.B() == 1; };
  return {
      {"softmax.plus_one", "row_sum", always,
       weights_by([](double a, double max, double sum) { return std::exp(a - max) / (sum + 1); })},
      {"softmax.denominator", "weights", always, weights_by([](double a, double max, double sum) {
         return std::exp(a - max) / (sum * std::exp(max));
       })},
      {"softmax.denominator", "weights", always,
       weights_by([](double a, double, double sum) { return std::exp(a) / sum; })},
      {"softmax.denominator", "weights", always,
       weights_by([](double a, double max, double) { return std::exp(a - max); })},
      {"softmax.denominator", "weights", always,
       weights_by([](double a, double, double) { return std::exp(a); })},
      {"softmax.added", "weights", always, weights_by([](double a, double max, double sum) {
         return std::exp(a - max) / (sum + 0.35);
       })},
      {"softmax.added", "weights", always, weights_by([](double a, double max, double sum) {
         return std::exp(a) / (sum * std::exp(max) + 6);
       })},
      {"parts.joined", "head_out", always,
       joined_by(4, [](const auto& parts, const PartOfKeys&) { return 1 / real(parts.size()); })},
      {"parts.joined", "head_out", always,
       joined_by(3,
                 [](const auto& parts, const PartOfKeys& part) {
                   double sum = 0;
                   for (const PartOfKeys& one : parts) sum += std::exp2(one.lse);
                   return std::exp2(part.lse) / sum;
                 })},
      {"mask.scaled", "masked",
       [](Layer& l, Random& r) {
         l.mask = numbers(r, {1, 1, l.T(), l.S()}, -3, 3);
         return true;
       },
       [](I& o) {
         for (double& value : o.layer.mask.values) value *= o.layer.scale;
       }},
      {"bias.position.twice", "biased", explicit_bias,
       [](I& o) {
         for (double& value : o.layer.bias.values) value *= 2;
       }},
      {"bias.position.twice", "biased", relative,
       [](I& o) {
         for (double& value : o.layer.relative_bias.values) value *= 2;
       }},
      {"bias.position.heads", "biased", explicit_bias,
       [](I& o) {
         const Array from = o.layer.bias;
         const std::size_t H = o.layer.H;
         o.layer.bias =
             reference::each(from, [&](double, std::size_t b, std::size_t h, std::size_t t,
                                       std::size_t j) { return from(b, other_head(h, H), t, j); });
       }},
      {"bias.position.heads", "biased", relative,
       [](I& o) {
         const Array from = o.layer.relative_bias;
         for (std::size_t bucket = 0; bucket < from.shape[0]; ++bucket)
           for (std::size_t h = 0; h < o.layer.H; ++h)
             o.layer.relative_bias(bucket, h) = from(bucket, other_head(h, o.layer.H));
       }},
      {"relative.transposed", "biased", relative,
       [](I& o) {
         Array& table = o.layer.relative_bias;
         const Array from = table;
         for (std::size_t bucket = 0; bucket < from.shape[0]; ++bucket)
           for (std::size_t h = 0; h < o.layer.H; ++h)
             table(bucket, h) = from.values[h * from.shape[0] + bucket];
       }},
      {"relative.past", "biased",
       [](Layer& l, Random& r) {
         l.k_past = numbers(r, {l.B(), l.H_kv, 3, l.d_k}, -1.5, 1.5);
         l.v_past = numbers(r, {l.B(), l.H_kv, 3, l.d_v}, -1.5, 1.5);
         return relative(l, r);
       },
       [](I& o) {
         // Of a text that has no past and is three tokens longer, the first rows.
         Layer longer = o.layer;
         longer.k_past = longer.v_past = {};
         longer.causal = false, longer.rope = reference::Rope::none;
         longer.X = Array({o.layer.B(), o.layer.T() + 3, o.layer.X.shape[2]});
         const Stages stages = reference::compute(longer);
         const Array &with = stages.at("biased"), &without = stages.at("scaled");
         Array bias({1, o.layer.H, o.layer.T(), o.layer.S_all()});
         o.layer.bias = reference::each(
             bias, [&](double, std::size_t, std::size_t h, std::size_t t, std::size_t j) {
               return with(zero, h, t, j) - without(zero, h, t, j);
             });
         o.layer.relative_bias = {};
       }},
      {"bias.heads", "q", always,
       [](I& o) { o.layer.b_q = with_heads_moved(o.layer.b_q, o.layer.H); }},
      {"bias.heads", "q", same_heads,
       [](I& o) {
         for (Array* bias : {&o.layer.b_q, &o.layer.b_k, &o.layer.b_v})
           *bias = with_heads_moved(*bias, o.layer.H);
       }},
      {"bias.order", "q", grouped_rope,
       [](I& o) {
         o.layer.b_q = pairs_apart(o.layer.b_q, o.layer.H);
         o.layer.b_k = pairs_apart(o.layer.b_k, o.layer.H_kv);
       }},
      {"heads.batch", "concat", [](Layer& l, Random&) { return l.B() > 1; },
       [](I& o) {
         o.steps.push_back({"concat", [](const I&, const Stages& s) {
                              const Array& z = s.at("head_out"); // B, H, T, d
                              const std::size_t B = z.shape[0], H = z.shape[1], d = z.shape[3];
                              Array joined({B, z.shape[2], H * d});
                              for (std::size_t row = 0; row < B * H; ++row) // joined as H · B
                                for (std::size_t t = 0; t < z.shape[2]; ++t)
                                  for (std::size_t i = 0; i < d; ++i)
                                    joined(row / H, t, row % H * d + i) = z(row % B, row / B, t, i);
                              return joined;
                            }});
       }},
      {"weight.heads", "q", always,
       [](I& o) {
         read_heads_first(o.layer.W_q, o.layer.H), read_heads_first(o.layer.W_k, o.layer.H_kv);
         read_heads_first(o.layer.W_v, o.layer.H_kv);
       }},
      {"weight.heads.q", "q", always, [](I& o) { read_heads_first(o.layer.W_q, o.layer.H); }},
      {"weight.heads.k", "k", always, [](I& o) { read_heads_first(o.layer.W_k, o.layer.H_kv); }},
      {"weight.heads.v", "v", always, [](I& o) { read_heads_first(o.layer.W_v, o.layer.H_kv); }},
      {"layout.batch", "head_out", items,
       [](I& o) {
         o.steps.push_back({"head_out", attended_over_items});
       }},
      {"layout.batch", "head_out", one_item,
       [](I& o) {
         o.steps.push_back({"head_out", attended_over_items});
       }},
      {"latent.norm.missing", "c_q", with_latents,
       [](I& o) {
         o.steps.push_back({"c_q", not_normalised("c_q", &Layer::W_q_a)});
         o.steps.push_back({"c_kv", not_normalised("c_kv", &Layer::W_kv_a)});
       }},
      {"latent.norm.missing", "c_kv", with_latents,
       [](I& o) {
         o.steps.push_back({"c_kv", not_normalised("c_kv", &Layer::W_kv_a)});
       }},
      {"latent.norm.weight", "c_q", with_latents,
       [](I& o) {
         for (double& weight : o.layer.q_a_norm.values) weight = 1;
       }},
  };
}

std::vector<Mistake> mistakes_of_maps() {
  /// The log-sum-exp by f(greatest score, Σ e^(score − greatest)).
  const auto lse_by = [](auto f) {
    return [f](I& o) {
      o.shown.push_back([f](const I&, Stages& s) {
        for (std::size_t i = 0; i < s["logsumexp"].values.size(); ++i) {
          const double max = s["row_max"].values[i];
          s["logsumexp"].values[i] = f(max, std::exp(s["logsumexp"].values[i] - max));
        }
      });
    };
  };
  return {{"logsumexp.form", "logsumexp", always,
           lse_by([](double, double sum) { return std::log(sum); })},
          {"logsumexp.form", "logsumexp", always, lse_by([](double max, double) { return max; })},
          {"logsumexp.form", "logsumexp", always, lse_by([](double, double sum) { return sum; })},
          {"logsumexp.form", "logsumexp", always,
           lse_by([](double max, double sum) { return -max - std::log(sum); })},
          {"logsumexp.form", "logsumexp", always,
           lse_by([](double max, double sum) { return max + std::log2(sum); })},
          {"sinks.added", "row_max", always,
           [](I& o) {
             o.layer.sinks = Array({o.layer.H});
             for (std::size_t h = 0; h < o.layer.H; ++h) o.layer.sinks(h) = 0.4 - 0.3 * real(h);
           }},
          {"bias.position.added", "masked", self_attention, [](I& o) {
             Array bias({1, o.layer.H, o.layer.T(), o.layer.S()});
             o.layer.bias = reference::each(bias, [&](double, std::size_t, std::size_t h,
                                                      std::size_t t, std::size_t j) {
               const double distance = real(j) - real(t);
               return std::sin(1 + real(h) + distance) - 0.1 * distance * distance / (1 + real(h));
             });
           }}};
}

} // namespace planted
