#include "support/planted_edits.hpp"
#include "support/planted_more.hpp"
#include "support/reference_positions.hpp"

#include <algorithm>
#include <cmath>

namespace planted {

using reference::Array;
using reference::Layer;
using reference::real;

namespace {

bool unmasked_self(Layer& layer, Random&) {
  return layer.X_k.empty();
}

bool causal_self(Layer& layer, Random&) {
  return layer.causal = true, layer.X_k.empty();
}

/// (B, T, H, d) in memory, read as (B, H, T, d).
Array read_as_heads_first(const Array& x) { // B, H, T, d
  Array y(x.shape);
  const std::size_t B = x.shape[0], H = x.shape[1], T = x.shape[2], d = x.shape[3];
  std::vector<double> memory;
  for (std::size_t b = 0; b < B; ++b)
    for (std::size_t t = 0; t < T; ++t)
      for (std::size_t h = 0; h < H; ++h)
        for (std::size_t i = 0; i < d; ++i) memory.push_back(x(b, h, t, i));
  y.values = memory;
  return y;
}

std::function<void(Implementation&)> split_plainly(std::initializer_list<const char*> names) {
  return [names = std::vector<std::string>(names.begin(), names.end())](Implementation& o) {
    for (const std::string& name : names)
      o.steps.push_back({name, [name](const Implementation&, const Stages& s) {
                           return read_as_heads_first(s.at(name));
                         }});
  };
}

/// Softmax over some axes of the masked scores.
std::function<void(Implementation&)> softmax_over(bool heads, bool queries, bool keys) {
  return [=](Implementation& o) {
    o.steps.push_back(
        {"weights", [=](const Implementation&, const Stages& s) {
           const Array& from = s.at("masked");
           Array e = from;
           for (double& value : e.values) value = std::exp(value);
           return reference::each(
               e, [&](double a, std::size_t b, std::size_t h, std::size_t t, std::size_t j) {
                 double sum = 0;
                 for (std::size_t g = heads ? 0 : h; g < (heads ? e.shape[1] : h + 1); ++g)
                   for (std::size_t u = queries ? 0 : t; u < (queries ? e.shape[2] : t + 1); ++u)
                     for (std::size_t n = keys ? 0 : j; n < (keys ? e.shape[3] : j + 1); ++n)
                       sum += e(b, g, u, n);
                 return sum > 0 ? a / sum : 0;
               });
         }});
    o.shown.push_back(drop_rows);
  };
}

/// Softmax over the heads under a causal mask: what is hidden has one constant in all of them, or
/// nothing hides it.
std::function<void(Implementation&)> softmax_over_heads(bool constant) {
  return [=](Implementation& o) {
    o.steps.push_back({"weights", [=](const Implementation&, const Stages& s) {
                         const Array& masked = s.at("masked");
                         const char* before = s.count("biased")   ? "biased"
                                              : s.count("capped") ? "capped"
                                                                  : "scaled";
                         const Array& open = s.at(before);
                         const auto of = [&](std::size_t b, std::size_t h, std::size_t t,
                                             std::size_t j) {
                           const bool hidden = std::isinf(masked(b, h, t, j));
                           return std::exp(hidden && constant ? 0 : open(b, h, t, j));
                         };
                         return reference::each(masked, [&](double, std::size_t b, std::size_t h,
                                                            std::size_t t, std::size_t j) {
                           double sum = 0;
                           for (std::size_t g = 0; g < masked.shape[1]; ++g) sum += of(b, g, t, j);
                           return of(b, h, t, j) / sum;
                         });
                       }});
    o.shown.push_back(drop_rows);
  };
}

/// Key/value heads of a choice, one for each query head; what is shown keeps its H_kv heads.
std::function<void(Implementation&)> read_heads(const std::function<std::size_t(std::size_t)>& of) {
  return [of](Implementation& o) {
    o.steps.push_back({"scores", [of](const Implementation&, const Stages& s) {
                         const Array &q = s.count("q_rope") ? s.at("q_rope") : s.at("q"),
                                     &k = s.count("k_rope") ? s.at("k_rope") : s.at("k");
                         return reference::each(s.at("scores"),
                                                [&](double, std::size_t b, std::size_t h,
                                                    std::size_t t, std::size_t j) {
                                                  double sum = 0;
                                                  for (std::size_t i = 0; i < q.shape[3]; ++i)
                                                    sum += q(b, h, t, i) * k(b, of(h), j, i);
                                                  return sum;
                                                });
                       }});
    o.steps.push_back({"head_out", [of](const Implementation&, const Stages& s) {
                         const Array &w = s.at("weights"), &v = s.at("v");
                         return reference::each(s.at("head_out"),
                                                [&](double, std::size_t b, std::size_t h,
                                                    std::size_t t, std::size_t i) {
                                                  double sum = 0;
                                                  for (std::size_t j = 0; j < w.shape[3]; ++j)
                                                    sum += w(b, h, t, j) * v(b, of(h), j, i);
                                                  return sum;
                                                });
                       }});
  };
}

Array between_heads_of(const Implementation& self, const Stages& s) {
  const Array &q = s.at("q"), &k = s.at("k"), &v = s.at("v");
  const std::size_t H = q.shape[1];
  return reference::each(s.at("head_out"),
                         [&](double, std::size_t b, std::size_t h, std::size_t t, std::size_t i) {
                           double sum = 0, total = 0;
                           for (std::size_t g = 0; g < H; ++g) {
                             double score = 0;
                             for (std::size_t n = 0; n < q.shape[3]; ++n)
                               score += q(b, h, t, n) * k(b, g, t, n);
                             const double e = std::exp(score * self.layer.scale);
                             sum += e * v(b, g, t, i), total += e;
                           }
                           return sum / total;
                         });
}

} // namespace

std::vector<Mistake> other_mistakes() {
  using I = Implementation;
  const auto always = [](Layer&, Random&) { return true; };
  const auto shares = [](Layer& l, Random&) { return l.H_kv > 1 && l.H_kv < l.H; };
  const auto plain = [](Layer& l, Random&) {
    return l.X_k.empty() && l.H == l.H_kv && l.rope == reference::Rope::none;
  };
  const auto residual = [](Layer& l, Random&) { return l.residual = true; };
  return {
      {"heads.reshape", "q", unmasked_self, split_plainly({"q", "k", "v"})},
      {"heads.reshape.v", "v", always, split_plainly({"v"})},
      {"heads.reshape.k", "k", always, split_plainly({"k"})},
      {"heads.reshape.q", "q", always, split_plainly({"q"})},
      {"heads.interleaved", "q", always,
       [](I& o) {
         Layer& l = o.layer;
         interleave(l.W_q, l.b_q, l.H), interleave(l.W_k, l.b_k, l.H_kv);
         interleave(l.W_v, l.b_v, l.H_kv);
       }},
      {"heads.interleaved.out", "concat", always,
       [](I& o) {
         o.steps.push_back({"concat", [](const I&, const Stages& s) {
                              const Array& z = s.at("head_out"); // B, H, T, d
                              Array joined({z.shape[0], z.shape[2], z.shape[1] * z.shape[3]});
                              for (std::size_t b = 0; b < z.shape[0]; ++b)
                                for (std::size_t t = 0; t < z.shape[2]; ++t)
                                  for (std::size_t h = 0; h < z.shape[1]; ++h)
                                    for (std::size_t i = 0; i < z.shape[3]; ++i)
                                      joined(b, t, i * z.shape[1] + h) = z(b, h, t, i);
                              return joined;
                            }});
       }},
      {"softmax.twice", "weights", always,
       [](I& o) {
         o.steps.push_back({"weights", [](const I&, const Stages& s) {
                              const Array& once = s.at("weights");
                              return reference::each(once, [&](double a, std::size_t b,
                                                               std::size_t h, std::size_t t,
                                                               std::size_t) {
                                double sum = 0;
                                for (std::size_t j = 0; j < once.shape[3]; ++j)
                                  sum += std::exp(once(b, h, t, j));
                                return std::exp(a) / sum;
                              });
                            }});
       }},
      {"heads.between", "head_out", plain,
       [](I& o) {
         o.steps.push_back({"head_out", between_heads_of});
         o.shown.push_back([](const I&, Stages& s) {
           for (const char* name : {"scores", "scaled", "masked", "weights"}) s.erase(name);
           drop_rows({}, s);
         });
       }},
      {"gqa.map", "scores", shares, read_heads([](std::size_t h) { return (h + 1) / 2 % 2; })},
      {"gqa.first", "scores", shares, read_heads([](std::size_t) { return std::size_t{0}; })},
      {"bias.missing", "q", always,
       [](I& o) { o.layer.b_q = o.layer.b_k = o.layer.b_v = o.layer.b_o = {}; }},
      {"bias.missing", "q", always, [](I& o) { o.layer.b_q = o.layer.b_k = o.layer.b_v = {}; }},
      {"bias.swapped.qk", "q", [](Layer& l, Random&) { return l.b_q.shape == l.b_k.shape; },
       [](I& o) { std::swap(o.layer.b_q, o.layer.b_k); }},
      {"bias.swapped.kv", "k", [](Layer& l, Random&) { return l.b_k.shape == l.b_v.shape; },
       [](I& o) { std::swap(o.layer.b_k, o.layer.b_v); }},
      {"bias.swapped.qv", "q", [](Layer& l, Random&) { return l.b_q.shape == l.b_v.shape; },
       [](I& o) { std::swap(o.layer.b_q, o.layer.b_v); }},
      {"softcap.value", "capped", [](Layer& l, Random&) { return l.softcap = 1.5, true; },
       [](I& o) { o.layer.softcap = 2.5; }},
      {"softcap.added", "masked", always, [](I& o) { o.layer.softcap = 2; }},
      {"clip.missing", "q",
       [](Layer& l, Random&) { return l.clip = 0.75, l.q_norm_weight.empty(); },
       [](I& o) { o.layer.clip = 0; }},
      {"clip.value", "q", [](Layer& l, Random&) { return l.clip = 0.75, l.q_norm_weight.empty(); },
       [](I& o) { o.layer.clip = 0.5; }},
      {"clip.added", "q", [](Layer& l, Random&) { return l.q_norm_weight.empty(); },
       [](I& o) { o.layer.clip = 0.75; }},
      {"weight.transposed", "q", always,
       [](I& o) {
         for (Array* W : {&o.layer.W_q, &o.layer.W_k, &o.layer.W_v, &o.layer.W_o}) read_turned(*W);
       }},
      {"weight.transposed", "q", always,
       [](I& o) {
         for (Array* W : {&o.layer.W_q, &o.layer.W_k, &o.layer.W_v}) read_turned(*W);
       }},
      {"softmax.axis", "weights", unmasked_self, softmax_over(true, false, false)},
      {"softmax.axis", "weights", unmasked_self, softmax_over(true, false, true)},
      {"softmax.axis", "weights", causal_self, softmax_over_heads(true)},
      {"softmax.axis", "weights", causal_self, softmax_over_heads(false)},
      {"softmax.base", "weights", unmasked_self,
       [](I& o) {
         o.steps.push_back({"weights", [](const I&, const Stages& s) {
                              const Array& masked = s.at("masked");
                              return reference::each(masked, [&](double a, std::size_t b,
                                                                 std::size_t h, std::size_t t,
                                                                 std::size_t) {
                                double sum = 0;
                                for (std::size_t j = 0; j < masked.shape[3]; ++j)
                                  sum += std::exp2(masked(b, h, t, j));
                                return std::exp2(a) / sum;
                              });
                            }});
         o.shown.push_back(drop_rows);
       }},
      {"softmax.plus_one", "row_max", always, [](I& o) { o.layer.sinks = Array({o.layer.H}); }},
      {"softmax.missing", "weights", unmasked_self,
       [](I& o) {
         o.steps.push_back({"weights", [](const I&, const Stages& s) {
                              Array weights = s.at("masked");
                              for (double& w : weights.values) w = std::isinf(w) ? 0 : w;
                              return weights;
                            }});
         o.shown.push_back(drop_rows);
       }},
      {"residual.output", "residual", residual,
       [](I& o) {
         o.shown.push_back([](const I&, Stages& s) {
           for (std::size_t i = 0; i < s["output"].values.size(); ++i)
             s["residual"].values[i] = 2 * s["output"].values[i];
         });
       }},
      {"residual.twice", "residual", residual,
       [](I& o) {
         const Array X = o.layer.X;
         o.shown.push_back([X](const I&, Stages& s) {
           for (std::size_t i = 0; i < X.values.size(); ++i) s["residual"].values[i] += X.values[i];
         });
       }},
  };
}

} // namespace planted
