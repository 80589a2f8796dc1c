#include "support/planted_more.hpp"
#include "support/reference_positions.hpp"

#include <cmath>

namespace planted {

using reference::Array;
using reference::Layer;
using reference::real;

namespace {

bool rms(Layer& layer, Random& random) {
  if (!layer.X_k.empty()) return false;
  layer.input_norm = reference::Norm::rms;
  layer.norm_weight = numbers(random, {layer.X.shape[2]}, 0.4, 1.6);
  for (double& x : layer.X.values)
    x = static_cast<float>(0.3 + 0.05 * x); // ε counts, so does the mean
  return true;
}

bool layer_norm(Layer& layer, Random& random) {
  if (!rms(layer, random)) return false;
  layer.input_norm = reference::Norm::layer;
  layer.norm_bias = numbers(random, {layer.X.shape[2]}, -0.5, 0.5);
  return true;
}

bool plain_input(Layer& layer, Random&) {
  return layer.X_k.empty();
}

bool head_norm(Layer& layer, Random& random) {
  layer.q_norm_weight = numbers(random, {layer.d_k}, 0.4, 1.6);
  layer.k_norm_weight = numbers(random, {layer.d_k}, 0.4, 1.6);
  layer.qk_norm_eps = 0.05; // which counts
  return true;
}

/// Each head of q and k by f(x, mean square, mean).
template <class F>
std::function<void(Implementation&)> heads_by(F f, const std::string& sides = "qk") {
  return [f, sides](Implementation& other) {
    for (const char side : sides)
      other.steps.push_back({std::string(1, side) + "_norm",
                             [f, side](const Implementation& self, const Stages& stages) {
                               Array x = stages.at(std::string(1, side));
                               const Array& w = side == 'q' ? self.layer.q_norm_weight
                                                            : self.layer.k_norm_weight;
                               const std::size_t d = x.shape[3];
                               for (std::size_t row = 0; row < x.values.size() / d; ++row) {
                                 double square = 0, mean = 0;
                                 for (std::size_t i = 0; i < d; ++i)
                                   square += x.values[row * d + i] * x.values[row * d + i],
                                       mean += x.values[row * d + i];
                                 for (std::size_t i = 0; i < d; ++i) {
                                   double& value = x.values[row * d + i];
                                   value = f(self.layer, value, square, mean / real(d), w(i));
                                 }
                               }
                               return x;
                             }});
  };
}

/// x is what norm(x) gives.
Array normalised_again(const Implementation& self, const Stages& stages) {
  Layer again = self.layer;
  again.X = stages.at("x");
  return reference::compute(again).at("x");
}

} // namespace

std::vector<Mistake> norm_mistakes() {
  using I = Implementation;
  const auto raw = [](const I& self, const char* name) {
    Layer plain = self.layer;
    plain.input_norm = reference::Norm::none;
    plain.given.clear();
    return reference::compute(plain).at(name);
  };
  const auto from_raw = [raw](std::initializer_list<const char*> names) {
    return [raw, names = std::vector<std::string>(names.begin(), names.end())](I& o) {
      for (const std::string& name : names)
        o.steps.push_back(
            {name, [raw, name](const I& self, const Stages&) { return raw(self, name.c_str()); }});
    };
  };
  return {
      {"input_norm.missing", "x", rms, [](I& o) { o.layer.input_norm = reference::Norm::none; }},
      {"input_norm.added", "x", plain_input,
       [](I& o) { o.layer.input_norm = reference::Norm::rms; }},
      {"input_norm.kind", "x", rms, [](I& o) { o.layer.input_norm = reference::Norm::layer; }},
      {"input_norm.kind", "x", layer_norm,
       [](I& o) { o.layer.input_norm = reference::Norm::rms, o.layer.norm_bias = {}; }},
      {"input_norm.twice", "x", layer_norm,
       [](I& o) {
         o.steps.push_back({"x", normalised_again});
       }},
      {"input_norm.eps", "x", rms, [](I& o) { o.layer.input_norm_eps = 1e-3; }},
      {"input_norm.one_plus", "x", rms,
       [](I& o) {
         for (double& w : o.layer.norm_weight.values) w += 1;
       }},
      {"input_norm.weight", "x", rms, [](I& o) { o.layer.norm_weight = {}; }},
      {"input_norm.bias", "x", layer_norm, [](I& o) { o.layer.norm_bias = {}; }},
      {"input_norm.missing.kv", "k", rms, from_raw({"k", "v"})},
      {"input_norm.missing.q", "q", rms, from_raw({"q"})},
      {"input_norm.missing.v", "v", rms, from_raw({"v"})},
      {"input_norm.form", "x", rms,
       [](I& o) {
         o.steps.push_back({"x", [](const I& self, const Stages&) {
                              Array x = self.layer.X;
                              const std::size_t n = x.shape[2];
                              for (std::size_t row = 0; row < x.values.size() / n; ++row) {
                                double square = 0;
                                for (std::size_t i = 0; i < n; ++i)
                                  square += std::pow(x.values[row * n + i], 2);
                                const double size = std::sqrt(square / real(n - 1) + 1e-5);
                                for (std::size_t i = 0; i < n; ++i)
                                  x.values[row * n + i] *= self.layer.norm_weight(i) / size;
                              }
                              return x;
                            }});
       }},
      {"norm.added", "scores", [](Layer& l, Random&) { return l.q_norm_weight.empty(); },
       [](I& o) {
         o.layer.q_norm_weight = Array({o.layer.d_k}, 1);
         o.layer.k_norm_weight = Array({o.layer.d_k}, 1);
       }},
      {"norm.layer", "q_norm", head_norm,
       heads_by([](const Layer& l, double x, double square, double mean, double w) {
         const double variance = square / real(l.d_k) - mean * mean;
         return (x - mean) / std::sqrt(variance + l.qk_norm_eps) * w;
       })},
      {"norm.sum", "q_norm", head_norm,
       heads_by([](const Layer& l, double x, double square, double, double w) {
         return x / std::sqrt(square + l.qk_norm_eps) * std::sqrt(real(l.d_k)) * w;
       })},
      {"norm.eps", "q_norm", head_norm, [](I& o) { o.layer.qk_norm_eps = 1e-6; }},
      {"norm.weight", "q_norm", head_norm,
       [](I& o) {
         for (Array* w : {&o.layer.q_norm_weight, &o.layer.k_norm_weight})
           for (double& value : w->values) value = 1;
       }},
      {"norm.missing.q", "q_norm", head_norm,
       heads_by([](const Layer&, double x, double, double, double) { return x; }, "q")},
      {"norm.missing.k", "k_norm", head_norm,
       heads_by([](const Layer&, double x, double, double, double) { return x; }, "k")},
      {"norm.exchanged", "q_norm", head_norm,
       [](I& o) { std::swap(o.layer.q_norm_weight, o.layer.k_norm_weight); }},
      {"norm.exchanged", "k_norm", head_norm,
       [](I& o) { o.layer.k_norm_weight = o.layer.q_norm_weight; }},
      {"norm.one_plus", "q_norm", head_norm,
       [](I& o) {
         for (double& w : o.layer.q_norm_weight.values) w += 1;
       }},
      {"norm.added.v", "v",
       [](Layer& l, Random& random) { return l.d_k == l.d_v && head_norm(l, random); },
       [](I& o) {
         o.steps.push_back({"v", [](const I& self, const Stages& stages) {
                              Array v = stages.at("v");
                              const std::size_t d = v.shape[3];
                              for (std::size_t row = 0; row < v.values.size() / d; ++row) {
                                double square = 0;
                                for (std::size_t i = 0; i < d; ++i)
                                  square += std::pow(v.values[row * d + i], 2);
                                const double size =
                                    std::sqrt(square / real(d) + self.layer.qk_norm_eps);
                                for (std::size_t i = 0; i < d; ++i)
                                  v.values[row * d + i] *= self.layer.k_norm_weight(i) / size;
                              }
                              return v;
                            }});
       }},
      {"residual.normed", "residual",
       [](Layer& l, Random& r) { return rms(l, r) && (l.residual = true); },
       [](I& o) {
         o.shown.push_back([](const I&, Stages& s) {
           for (std::size_t i = 0; i < s["x"].values.size(); ++i)
             s["residual"].values[i] = s["output"].values[i] + s["x"].values[i];
         });
       }},
  };
}

} // namespace planted
