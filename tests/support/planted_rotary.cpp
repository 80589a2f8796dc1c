#include "support/planted_more.hpp"
#include "support/reference_positions.hpp"
#include <mha/tensor/tensor.hpp>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

namespace planted {

using reference::Array;
using reference::Layer;
using reference::real;

namespace {

/// Of self-attention, with a rotation.
bool rotates(Layer& layer, Random&) {
  if (!layer.X_k.empty()) return false;
  layer.rope = reference::Rope::half;
  layer.rope_base = 100; // every pair turns within a few tokens
  return true;
}

bool rotates_in_part(Layer& layer, Random& random) {
  if (!rotates(layer, random) || layer.d_k < 6) return false;
  layer.rope_dims = 4;
  return true;
}

bool scales(Layer& layer, Random& random, reference::Scaling scaling) {
  if (!rotates(layer, random)) return false;
  layer.rope_scaling = scaling;
  layer.rope_factor = 4, layer.rope_length = 64;
  return true;
}

/// With a ramp that some pairs are on.
bool scales_by_yarn(Layer& layer, Random& random) {
  if (!scales(layer, random, reference::Scaling::yarn) || layer.d_k < 6) return false;
  layer.rope_length = 500, layer.beta_slow = 2;
  return true;
}
/// Pair 1 turns twice in the original length: on the ramp.
bool scales_by_bands(Layer& layer, Random& random) {
  if (!scales(layer, random, reference::Scaling::llama3) || layer.d_k < 6) return false;
  const double n = real(layer.rope_dims ? layer.rope_dims : layer.d_k);
  layer.rope_length = 2 * 2 * std::numbers::pi * std::pow(layer.rope_base, 2 / n);
  return true;
}
/// Of a text that is shorter, or longer, than trained on.
bool scales_by_lists(Layer& layer, Random& random, double trained) {
  if (!scales(layer, random, reference::Scaling::longrope)) return false;
  layer.rope_length = trained;
  const std::size_t pairs = layer.d_k / 2;
  layer.short_factor = layer.long_factor = Array({pairs});
  for (std::size_t i = 0; i < pairs; ++i)
    layer.short_factor(i) = 1 + 0.1 * real(i), layer.long_factor(i) = 2 + 1.5 * real(i);
  return true;
}

/// What comes to the rotation.
const Array& before_rotation(const Stages& stages, const std::string& name) {
  const auto normed = stages.find(name.substr(0, 1) + "_norm");
  return normed != stages.end() ? normed->second : stages.at(name.substr(0, 1));
}

using Angle = std::function<double(std::size_t h, std::size_t t, std::size_t pair)>;

/// Dimension i is paired with j = partner(i) and turned by angle(pair of i), its own sine with
/// sign.
struct Recipe {
  std::function<std::size_t(std::size_t i)> partner, pair;
  std::function<double(std::size_t i)> sign;
  Angle angle;
  std::function<double(double)> round;
};

Recipe recipe_of(const Layer& layer) {
  const std::size_t n = layer.rope_dims ? layer.rope_dims : layer.d_k;
  Recipe recipe;
  recipe.partner = [n](std::size_t i) { return (i + n / 2) % n; };
  recipe.pair = [n](std::size_t i) { return i % (n / 2); };
  recipe.sign = [n](std::size_t i) { return i < n / 2 ? -1.0 : 1.0; };
  const double past = real(layer.P()), base = layer.rope_base;
  recipe.angle = [past, base, n](std::size_t, std::size_t t, std::size_t pair) {
    return (past + real(t)) * std::pow(base, -2 * real(pair) / real(n));
  };
  recipe.round = [](double a) { return a; };
  return recipe;
}

Array turned_by(const Layer& layer, const Array& x, const Recipe& recipe) {
  const std::size_t n = layer.rope_dims ? layer.rope_dims : layer.d_k;
  Array y = x;
  for (std::size_t b = 0; b < x.shape[0]; ++b)
    for (std::size_t h = 0; h < x.shape[1]; ++h)
      for (std::size_t t = 0; t < x.shape[2]; ++t)
        for (std::size_t i = 0; i < n; ++i) {
          const double angle = recipe.angle(h, t, recipe.pair(i));
          y(b, h, t, i) =
              x(b, h, t, i) * recipe.round(std::cos(angle)) +
              recipe.sign(i) * x(b, h, t, recipe.partner(i)) * recipe.round(std::sin(angle));
        }
  return y;
}

/// q and k (or one of them) rotated by a recipe.
std::function<void(Implementation&)> rotate_by(std::function<void(const Layer&, Recipe&)> edit,
                                               const std::string& sides = "qk") {
  return [edit = std::move(edit), sides](Implementation& other) {
    for (const char side : sides)
      other.steps.push_back(
          {std::string(1, side) + "_rope",
           [edit, side](const Implementation& self, const Stages& stages) {
             Recipe recipe = recipe_of(self.layer);
             edit(self.layer, recipe);
             return turned_by(self.layer, before_rotation(stages, std::string(1, side)), recipe);
           }});
  };
}

/// YaRN with other frequencies on its ramp: of a plain frequency, one of a base that is stretched
/// by NTK, the factor s, and the share of what is divided by s.
using Ramped = double (*)(double plain, double stretched, double s, double share);
std::function<void(Implementation&)> ramp_of(Ramped frequency) {
  return rotate_by([frequency](const Layer& layer, Recipe& recipe) {
    const double n = real(layer.rope_dims ? layer.rope_dims : layer.d_k), base = layer.rope_base;
    const double s = layer.rope_factor, M = layer.rope_length, past = real(layer.P());
    const auto of_turns = [=](double turns) {
      return n / 2 * std::log(M / (2 * std::numbers::pi * turns)) / std::log(base);
    };
    const double first = std::max(std::floor(of_turns(layer.beta_fast)), 0.0),
                 last = std::min(std::ceil(of_turns(layer.beta_slow)), n - 1);
    recipe.angle = [=](std::size_t, std::size_t t, std::size_t pair) {
      const double share = std::clamp((real(pair) - first) / (last - first), 0.0, 1.0);
      const double stretched = base * std::pow(s, n / (n - 2)), power = -2 * real(pair) / n;
      return (past + real(t)) *
             frequency(std::pow(base, power), std::pow(stretched, power), s, share);
    };
    recipe.round = [s](double a) { return (0.1 * std::log(s) + 1) * a; };
  });
}

/// Angles of other positions.
template <class Position> auto at_positions(Position position) {
  return rotate_by([position](const Layer& layer, Recipe& recipe) {
    const double base = layer.rope_base;
    const std::size_t n = layer.rope_dims ? layer.rope_dims : layer.d_k;
    recipe.angle = [=](std::size_t h, std::size_t t, std::size_t pair) {
      return position(h, real(t)) * std::pow(base, -2 * real(pair) / real(n));
    };
  });
}

/// q or k whose dimensions after the rotated ones are 0.
std::function<void(Implementation&)> without_rest(const std::string& side) {
  return [side](Implementation& other) {
    other.steps.push_back(
        {side + "_rope", [side](const Implementation& self, const Stages& stages) {
           Array y = turned_by(self.layer, before_rotation(stages, side), recipe_of(self.layer));
           for (std::size_t b = 0; b < y.shape[0]; ++b)
             for (std::size_t h = 0; h < y.shape[1]; ++h)
               for (std::size_t t = 0; t < y.shape[2]; ++t)
                 for (std::size_t i = self.layer.rope_dims; i < y.shape[3]; ++i) y(b, h, t, i) = 0;
           return y;
         }});
  };
}

/// Positions that are too high.
auto later_by(std::size_t positions) {
  return [positions](const Layer&, Recipe& recipe) {
    const Angle own = recipe.angle;
    recipe.angle = [own, positions](std::size_t h, std::size_t t, std::size_t pair) {
      return own(h, t + positions, pair);
    };
  };
}

double bf16(double a) {
  return mha::from_bfloat16(mha::to_bfloat16(static_cast<float>(a)));
}

} // namespace

std::vector<Mistake> rotary_mistakes() {
  using I = Implementation;
  using R = Recipe;
  const auto linear = [](Layer& l, Random& r) { return scales(l, r, reference::Scaling::linear); };
  const auto llama3 = [](Layer& l, Random& r) { return scales(l, r, reference::Scaling::llama3); };
  const auto far = [](Layer& l, Random& r) {
    if (!rotates(l, r)) return false;
    l.has_rope_offset = true, l.rope_offset = 300; // where bfloat16 counts in twos
    return true;
  };
  const auto dynamic = [](Layer& l, Random& r) {
    if (!scales(l, r, reference::Scaling::dynamic)) return false;
    l.rope_length = 3;
    return l.d_k > 2;
  };
  const auto short_text = [](Layer& l, Random& r) { return scales_by_lists(l, r, 64); };
  const auto long_text = [](Layer& l, Random& r) { return scales_by_lists(l, r, 3); };
  const auto other_list = [](I& o) { std::swap(o.layer.short_factor, o.layer.long_factor); };
  const double yarn_factor = 0.1 * std::log(4.0) + 1;
  const auto unscaled = [](I& o) { o.layer.rope_scaling = reference::Scaling::none; };
  return {
      {"rope.sign", "q_rope", rotates, at_positions([](std::size_t, double t) { return -t; })},
      {"rope.sign", "q_rope", rotates,
       rotate_by([](const Layer&, R& r) { r.sign = [](std::size_t) { return 1.0; }; })},
      {"rope.pairs", "q_rope", rotates,
       rotate_by([](const Layer&, R& r) { r.pair = [](std::size_t i) { return i / 2; }; })},
      {"rope.missing.q", "q_rope", rotates,
       rotate_by([](const Layer&, R& r) { r.angle = [](auto, auto, auto) { return 0.0; }; }, "q")},
      {"rope.missing.k", "k_rope", rotates,
       rotate_by([](const Layer&, R& r) { r.angle = [](auto, auto, auto) { return 0.0; }; }, "k")},
      {"rope.twice", "q_rope", rotates, at_positions([](std::size_t, double t) { return 2 * t; })},
      {"rope.values", "v", [](Layer& l, Random& r) { return l.d_k == l.d_v && rotates(l, r); },
       [](I& o) {
         o.steps.push_back({"v", [](const I& self, const Stages&) {
                              const Array plain = self.until("v").run().at("v");
                              return turned_by(self.layer, plain, recipe_of(self.layer));
                            }});
       }},
      {"rope.axis", "q_rope", rotates, at_positions([](std::size_t h, double) { return real(h); })},
      {"rope.positions", "q_rope", rotates, rotate_by([](const Layer& layer, R& r) {
         const auto forwards = r.angle;
         r.angle = [forwards, last = layer.T() - 1](std::size_t h, std::size_t t,
                                                    std::size_t pair) {
           return forwards(h, last - t, pair);
         };
       })},
      {"rope.padding", "q_rope",
       [](Layer& l, Random& r) {
         if (!rotates(l, r)) return false;
         l.padding = Array({l.B(), l.S()});
         for (std::size_t b = 0; b < l.B(); ++b) l.padding(b, std::size_t{1}) = 1;
         return true;
       },
       rotate_by([](const Layer&, R& r) {
         const auto all = r.angle;
         r.angle = [all](std::size_t h, std::size_t t, std::size_t pair) {
           return all(h, t > 0 ? t - 1 : 0, pair);
         };
       })},
      {"rope.frequencies", "q_rope", rotates_in_part, rotate_by([](const Layer& layer, R& r) {
         const double width = real(layer.d_k), base = layer.rope_base;
         r.angle = [=](std::size_t, std::size_t t, std::size_t pair) {
           return real(t) * std::pow(base, -2 * real(pair) / width);
         };
       })},
      {"rope.rest", "q_rope", rotates_in_part, without_rest("q")},
      {"rope.rest", "k_rope", rotates_in_part, without_rest("k")},
      {"rope.offset", "q_rope", rotates, rotate_by(later_by(5), "q")},
      {"rope.offset", "k_rope", rotates, rotate_by(later_by(3), "k")},
      {"rope.scaling.missing", "q_rope", linear, unscaled},
      {"rope.scaling.missing", "q_rope", llama3, unscaled},
      {"rope.scaling.added", "q_rope", rotates,
       [](I& o) { o.layer.rope_scaling = reference::Scaling::linear, o.layer.rope_factor = 8; }},
      {"rope.scaling.added", "q_rope", rotates,
       [](I& o) { o.layer.rope_scaling = reference::Scaling::linear, o.layer.rope_factor = 2.7; }},
      {"rope.scaling.inverted", "q_rope", linear, [](I& o) { o.layer.rope_factor = 0.25; }},
      {"rope.scaling.kind", "q_rope", llama3,
       [](I& o) { o.layer.rope_scaling = reference::Scaling::linear; }},
      {"rope.scaling.missing", "q_rope", dynamic, unscaled},
      {"rope.scaling.missing", "q_rope", scales_by_yarn, unscaled},
      {"rope.scaling.missing", "q_rope", scales_by_yarn,
       [=](I& o) { unscaled(o), o.layer.attention_factor = yarn_factor; }},
      {"rope.scaling.missing", "q_rope", long_text, unscaled},
      {"rope.scaling.added", "q_rope", rotates,
       [](I& o) {
         o.layer.rope_scaling = reference::Scaling::yarn, o.layer.rope_factor = 4;
         o.layer.rope_length = 32768;
       }},
      {"rope.scaling.kind", "q_rope", scales_by_yarn,
       [](I& o) { o.layer.rope_scaling = reference::Scaling::linear; }},
      {"rope.scaling.kind", "q_rope", dynamic,
       [](I& o) { o.layer.rope_scaling = reference::Scaling::linear; }},
      {"rope.scaling.kind", "q_rope", dynamic,
       [](I& o) { o.layer.rope_scaling = reference::Scaling::yarn; }},
      {"rope.scaling.ramp", "q_rope", scales_by_yarn, [](I& o) { o.layer.truncate = false; }},
      {"rope.scaling.ramp", "q_rope", scales_by_yarn,
       [](I& o) { std::swap(o.layer.beta_fast, o.layer.beta_slow); }},
      {"rope.scaling.ramp", "q_rope", scales_by_yarn,
       ramp_of([](double plain, double stretched, double s, double share) {
         return plain / s * share + stretched * (1 - share);
       })},
      {"rope.scaling.ramp", "q_rope", scales_by_yarn,
       ramp_of([](double, double stretched, double s, double share) {
         return stretched / s * share + stretched * (1 - share);
       })},
      {"rope.scaling.ramp", "q_rope", scales_by_yarn,
       ramp_of([](double plain, double, double s, double share) {
         return 1 / (s / plain * share + 1 / plain * (1 - share));
       })},
      {"rope.scaling.ramp", "q_rope", scales_by_yarn,
       ramp_of([](double plain, double, double s, double share) {
         return plain / s * (1 - share) + plain * share;
       })},
      {"rope.scaling.ramp", "q_rope", scales_by_yarn,
       [](I& o) { o.layer.rope_length *= o.layer.rope_factor; }},
      {"rope.scaling.ramp", "q_rope", scales_by_bands,
       [](I& o) { std::swap(o.layer.rope_low, o.layer.rope_high); }},
      {"rope.scaling.ramp", "q_rope", scales_by_bands,
       [](I& o) { o.layer.rope_low = o.layer.rope_high - 1e-9; }},
      {"rope.scaling.length", "q_rope", short_text, other_list},
      {"rope.scaling.length", "q_rope", long_text, other_list},
      {"rope.attention_factor", "q_rope", scales_by_yarn,
       [](I& o) { o.layer.attention_factor = 1; }},
      {"rope.attention_factor", "q_rope", scales_by_yarn,
       [=](I& o) { o.layer.attention_factor = yarn_factor * yarn_factor; }},
      {"rope.attention_factor", "q_rope", long_text, [](I& o) { o.layer.attention_factor = 1; }},
      {"rope.rounded", "q_rope", far, rotate_by([](const Layer& layer, R& r) {
         const double base = layer.rope_base, width = real(layer.d_k);
         r.angle = [=](std::size_t, std::size_t t, std::size_t pair) {
           return bf16(bf16(300 + real(t)) * bf16(std::pow(base, -2 * real(pair) / width)));
         };
       })},
      {"rope.attention_factor", "q_rope", rotates, rotate_by([](const Layer&, R& r) {
         const double factor = 0.1 * std::log(4.0) + 1;
         r.round = [factor](double a) { return factor * a; };
       })},
  };
}

} // namespace planted
