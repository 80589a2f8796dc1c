#include "support/planted_edits.hpp"
#include "support/planted_more.hpp"
#include "support/reference_positions.hpp"

#include <cmath>

namespace planted {

using reference::Array;
using reference::infinity;
using reference::Layer;
using reference::real;

namespace {

bool causal_square(Layer& layer, Random&) {
  layer.causal = true;
  return layer.X_k.empty();
}

bool padded(Layer& layer, Random&) {
  layer.padding = Array({layer.B(), layer.S()});
  for (std::size_t b = 0; b < layer.B(); ++b)
    for (std::size_t j = layer.S() - 2 - b; j < layer.S(); ++j) layer.padding(b, j) = 1;
  return true;
}

/// A mask of its own for each of two batch items.
bool masked_by_item(Layer& layer, Random& random) {
  if (layer.B() < 2) return false;
  layer.blocked = Array({layer.B(), 1, layer.T(), layer.S()});
  for (double& value : layer.blocked.values) value = random.chance(0.4) ? 1 : 0;
  for (std::size_t b = 0; b < layer.B(); ++b)
    for (std::size_t t = 0; t < layer.T(); ++t) layer.blocked(b, std::size_t{0}, t, t) = 0;
  return true;
}

bool square_mask(Layer& layer, Random& random) {
  if (!layer.X_k.empty()) return false;
  layer.causal = false;
  layer.blocked = Array({1, 1, layer.T(), layer.S()});
  for (double& value : layer.blocked.values) value = random.chance(0.4) ? 1 : 0;
  for (std::size_t t = 0; t < layer.T(); ++t)
    layer.blocked(std::size_t{0}, std::size_t{0}, t, t) = 0;
  return true;
}

bool hides_a_row(Layer& layer, Random& random) {
  if (!square_mask(layer, random)) return false;
  for (std::size_t j = 0; j < layer.S(); ++j)
    layer.blocked(std::size_t{0}, std::size_t{0}, std::size_t{2}, j) = 1;
  return true;
}

bool window_of_three(Layer& layer, Random&) {
  layer.causal = true, layer.window_left = 2;
  return layer.X_k.empty();
}

/// The masked scores by f(score, hidden).
template <class F> std::function<void(Implementation&)> masked_by(F f) {
  return [f](Implementation& other) {
    other.steps.push_back({"masked", [f](const Implementation&, const Stages& s) {
                             const Array& before = s.count("biased")   ? s.at("biased")
                                                   : s.count("capped") ? s.at("capped")
                                                                       : s.at("scaled");
                             const Array& now = s.at("masked");
                             Array masked = before;
                             for (std::size_t i = 0; i < masked.values.size(); ++i)
                               masked.values[i] =
                                   f(before.values[i], std::isinf(now.values[i]), now.values[i]);
                             return masked;
                           }});
  };
}

/// What the position bias adds.
Array added_by_bias(const Layer& layer) {
  const Stages stages = reference::compute(layer);
  Array added = stages.at("biased");
  const Array& before = stages.count("capped") ? stages.at("capped") : stages.at("scaled");
  for (std::size_t i = 0; i < added.values.size(); ++i) added.values[i] -= before.values[i];
  return added;
}

Array with_axes_exchanged(const Array& from) {
  return reference::each(from, [&](double, std::size_t b, std::size_t h, std::size_t t,
                                   std::size_t j) { return from(b, h, j, t); });
}

bool with_alibi(Layer& layer, Random&) {
  layer.alibi = reference::Alibi::paper;
  return layer.X_k.empty();
}

/// Where the masks hide a key.
Array hidden_of(const Implementation& self) {
  Array masked = reference::compute(self.layer).at("masked");
  for (double& value : masked.values) value = std::isinf(value) ? 1 : 0;
  return masked;
}

} // namespace

bool relative(Layer& layer, Random& random) {
  layer.relative_bias = numbers(random, {8, layer.H}, -2, 2);
  layer.relative_max_distance = 5;
  return layer.X_k.empty();
}

bool explicit_bias(Layer& layer, Random& random) {
  layer.bias = numbers(random, {1, layer.H, layer.T(), layer.S()}, -2, 2);
  return layer.X_k.empty();
}

std::vector<Mistake> mask_mistakes() {
  using I = Implementation;
  const auto always = [](Layer&, Random&) { return true; };
  return {
      {"mask.constant", "masked", causal_square,
       masked_by([](double score, bool hidden, double) { return hidden ? -1e-9 : score; })},
      {"mask.constant", "masked", causal_square,
       masked_by([](double score, bool hidden, double) { return hidden ? score - 1 : score; })},
      {"mask.constant", "masked", hides_a_row,
       masked_by([](double score, bool hidden, double) { return hidden ? -1e4 : score; })},
      {"mask.added", "masked", padded, masked_by([](double score, bool hidden, double now) {
         return hidden ? score : (std::isinf(now) ? now : now + 1);
       })},
      {"mask.after_softmax", "masked", causal_square,
       [](I& o) {
         const Array hidden = hidden_of(o);
         o.layer.causal = false;
         o.steps.push_back({"weights", [hidden](const I&, const Stages& s) {
                              Array weights = s.at("weights");
                              for (std::size_t i = 0; i < weights.values.size(); ++i)
                                if (hidden.values[i] != 0) weights.values[i] = 0;
                              return weights;
                            }});
         o.shown.push_back(drop_rows);
       }},
      {"masked_rows", "weights", hides_a_row,
       [](I& o) { o.layer.masked_rows = reference::MaskedRows::uniform; }},
      {"causal.inverted", "masked", causal_square,
       [](I& o) { o.layer.causal = false, o.layer.window_left = 0; }},
      {"mask.transposed", "masked", square_mask,
       [](I& o) {
         const Array from = o.layer.blocked;
         for (std::size_t t = 0; t < from.shape[2]; ++t)
           for (std::size_t j = 0; j < from.shape[3]; ++j)
             o.layer.blocked(std::size_t{0}, std::size_t{0}, t, j) =
                 from(std::size_t{0}, std::size_t{0}, j, t);
       }},
      {"mask.batch", "masked", masked_by_item,
       [](I& o) {
         const Array from = o.layer.blocked;
         const std::size_t B = o.layer.B(), H = o.layer.H;
         o.layer.blocked = Array({B, H, from.shape[2], from.shape[3]});
         for (std::size_t b = 0; b < B; ++b)
           for (std::size_t h = 0; h < H; ++h)
             for (std::size_t t = 0; t < from.shape[2]; ++t)
               for (std::size_t j = 0; j < from.shape[3]; ++j)
                 o.layer.blocked(b, h, t, j) = from((b * H + h) % B, std::size_t{0}, t, j);
       }},
      {"window.missing", "masked", window_of_three, [](I& o) { o.layer.window_left = -1; }},
      {"window.length", "masked", window_of_three, [](I& o) { o.layer.window_left = 5; }},
      {"window.added", "masked", causal_square, [](I& o) { o.layer.window_left = 3; }},
      {"bias.position", "masked",
       [](Layer& l, Random& r) {
         l.bias = numbers(r, {1, l.H, l.T(), l.S()}, -2, 2);
         return true;
       },
       [](I& o) { o.layer.bias = {}; }},
      {"relative.direction", "biased",
       [](Layer& l, Random& r) {
         l.relative_bias = numbers(r, {8, l.H}, -2, 2);
         return l.X_k.empty();
       },
       [](I& o) { o.layer.relative_bidirectional = false; }},
      {"relative.distance", "biased", relative, [](I& o) { o.layer.relative_max_distance = 20; }},
      {"relative.sign", "biased", relative,
       [](I& o) {
         o.layer.bias = with_axes_exchanged(added_by_bias(o.layer));
         o.layer.relative_bias = {};
       }},
      {"bias.position.transposed", "biased", explicit_bias,
       [](I& o) { o.layer.bias = with_axes_exchanged(o.layer.bias); }},
      {"bias.position.scaled", "biased", explicit_bias,
       [](I& o) {
         for (double& value : o.layer.bias.values) value *= o.layer.scale;
       }},
      {"alibi.sign", "biased", with_alibi,
       [](I& o) {
         o.layer.bias = added_by_bias(o.layer);
         for (double& value : o.layer.bias.values) value = -value;
         o.layer.alibi = reference::Alibi::none;
       }},
      {"mask.axis", "masked", [](Layer& l, Random& r) { return l.X_k.empty() && padded(l, r); },
       [](I& o) {
         const Array padding = o.layer.padding;
         o.layer.padding = {};
         o.layer.blocked = Array({o.layer.B(), 1, o.layer.T(), 1});
         o.layer.blocked.values = padding.values;
       }},
      {"alibi.slopes", "biased", with_alibi,
       [](I& o) {
         const Layer& l = o.layer;
         Array bias({1, l.H, l.T(), l.S()});
         for (std::size_t h = 0; h < l.H; ++h)
           for (std::size_t t = 0; t < l.T(); ++t)
             for (std::size_t j = 0; j < l.S(); ++j)
               bias(std::size_t{0}, h, t, j) =
                   std::exp2(-8 * real(h) / real(l.H)) * (real(j) - real(t));
         o.layer.alibi = reference::Alibi::none;
         o.layer.bias = bias;
       }},
      {"scale.after_softmax", "scaled", always,
       [](I& o) {
         const double scale = o.layer.scale;
         o.layer.scale = 1;
         o.steps.push_back({"weights", [scale](const I&, const Stages& s) {
                              Array weights = s.at("weights");
                              for (double& w : weights.values) w *= scale;
                              return weights;
                            }});
       }},
  };
}

} // namespace planted
