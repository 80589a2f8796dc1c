// The softmax over other axes, left out, doubled or with another base, and the scale on the wrong
// side of it.

#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/themes.hpp>
#include <mha/layer/graph.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace mha {

namespace {

/// The softmax over some of the axes H, T, S of masked (B, H, T, S).
Tensor softmax_over(const Tensor& masked, bool heads, bool queries, bool keys) {
  const Shape& s = masked.shape();
  const std::size_t B = s[0], H = s[1], T = s[2], S = s[3];
  Tensor weights = Tensor::uninitialised(masked.dtype(), s);
  by_precision(masked.dtype(), [&]<class N>(N) {
    const N* from = masked.as<N>().data();
    N* to = weights.as_mutable<N>().data();
    const std::size_t groups = B * (heads ? 1 : H) * (queries ? 1 : T) * (keys ? 1 : S);
    std::vector<double> max(groups, -std::numeric_limits<double>::infinity()), sum(groups, 0.0);
    const auto each = [&](auto f) {
      for (std::size_t b = 0, at = 0; b < B; ++b)
        for (std::size_t h = 0; h < H; ++h)
          for (std::size_t t = 0; t < T; ++t) {
            const std::size_t row =
                (b * (heads ? 1 : H) + (heads ? 0 : h)) * (queries ? 1 : T) + (queries ? 0 : t);
            for (std::size_t j = 0; j < S; ++j, ++at) f(at, keys ? row : row * S + j);
          }
    };
    each([&](std::size_t at, std::size_t group) {
      max[group] = std::max(max[group], static_cast<double>(from[at]));
    });
    each([&](std::size_t at, std::size_t group) {
      const double e =
          std::isinf(max[group]) ? 0 : std::exp(static_cast<double>(from[at]) - max[group]);
      to[at] = static_cast<N>(e), sum[group] += e;
    });
    each([&](std::size_t at, std::size_t group) {
      to[at] = sum[group] > 0 ? static_cast<N>(static_cast<double>(to[at]) / sum[group]) : N(0);
    });
  });
  return weights;
}

const char* const over_keys = "take the softmax over the keys, the last axis of (H, T, S)";

/// For a softmax over the heads: a key hidden from a query has the same mask constant in every
/// head, or is not hidden.
void add_heads_with_hidden_keys(ChangeList& list) {
  list.add_rows(
      "softmax.axis", StageSet{Stage::weights},
      "takes the softmax over the heads, where a hidden key has the same constant in each",
      over_keys, [](Layer& edited) {
        const Tensor masked = value_of(edited, Stage::masked);
        const double same = 1 / static_cast<double>(edited.dims.H);
        const Tensor weights = softmax_over(masked, true, false, false);
        Tensor shown = copied(weights);
        by_precision(shown.dtype(), [&]<class N>(N) {
          for (std::size_t i = 0; i < shown.count(); ++i)
            if (std::isinf(value_at(masked, i))) shown.as_mutable<N>()[i] = static_cast<N>(same);
        });
        give(edited, Stage::weights, shown);
      });
  list.add_rows(
      "softmax.axis", StageSet{Stage::weights},
      "takes the softmax over the heads, in which no key is hidden", over_keys, [](Layer& edited) {
        const Stage before = inputs_of(edited, Stage::masked)[0];
        give(edited, Stage::weights, softmax_over(value_of(edited, before), true, false, false));
      });
}

void add_axes(const Dims& dims, ChangeList& list) {
  struct Axes {
    bool heads, queries, keys;
    const char* name;
  };
  for (const Axes& axes : {Axes{true, false, false, "over the heads"},
                           Axes{true, false, true, "over heads and keys together"},
                           Axes{false, true, true, "over queries and keys together"},
                           Axes{true, true, true, "over all heads, queries and keys"}}) {
    if ((axes.heads && dims.H < 2) || (axes.queries && dims.T < 2)) continue;
    const auto edit = [axes](Layer& edited) {
      give(edited, Stage::weights,
           softmax_over(value_of(edited, Stage::masked), axes.heads, axes.queries, axes.keys));
    };
    const std::string did = fmt::format("takes the softmax {}", axes.name), cure = over_keys;
    if (axes.queries)
      list.add("softmax.axis", StageSet{Stage::weights}, did, cure, edit);
    else
      list.add_rows("softmax.axis", StageSet{Stage::weights}, did, cure, edit);
  }
}

/// Whether the layer hides keys from queries.
bool hides_keys(const Layer& layer) {
  const Settings& s = layer.settings;
  return s.causal || s.window_left >= 0 || s.window_right >= 0 || !layer.added.empty() ||
         !layer.blocked.empty();
}

/// The scores in place of the weights, with 0 or a mask constant for hidden keys.
void add_missing(const Layer& layer, ChangeList& list) {
  const auto add = [&](double hidden, const std::string& suffix) {
    list.add_rows("softmax.missing", StageSet{Stage::weights},
                  "uses the scores as the weights" + suffix,
                  "take the softmax of the scores over the keys", [hidden](Layer& edited) {
                    give(edited, Stage::weights,
                         each_number(value_of(edited, Stage::masked),
                                     [hidden](double a) { return std::isinf(a) ? hidden : a; }));
                  });
  };
  add(0, "");
  if (!hides_keys(layer)) return;
  for (const double hidden : {-std::numeric_limits<double>::infinity(), -1e9, -1e4})
    add(hidden, fmt::format(", with {:g} for hidden keys", hidden));
}

std::vector<Change> softmax_form_changes(const Subject& subject) {
  const Layer& layer = subject.layer;
  ChangeList list;
  add_axes(layer.dims, list);
  if (layer.dims.H > 1 && (layer.settings.causal || !layer.added.empty() || !layer.blocked.empty()))
    add_heads_with_hidden_keys(list);
  add_missing(layer, list);
  list.add_rows(
      "softmax.base", StageSet{Stage::weights}, "uses powers of 2 in the softmax, not of e",
      "exponentiate with base e, or multiply the scores by log₂ e first", [](Layer& edited) {
        const Tensor masked =
            each_number(value_of(edited, Stage::masked), [](double a) { return a * M_LN2; });
        give(edited, Stage::weights, softmax_over(masked, false, false, true));
      });
  if (layer.sinks.empty())
    list.add("softmax.plus_one", StageSet{Stage::row_max, Stage::row_sum},
             "adds 1 to the sum of the softmax (a sink of 0 in every head)",
             "divide by only the sum of the exponentials",
             [](Layer& edited) { edited.sinks = Tensor(edited.dtype, {edited.dims.H}); });
  if (layer.scale() != 1)
    list.add_rows("scale.after_softmax", StageSet{Stage::scaled, Stage::weights},
                  "applies the scale to the weights, after the softmax",
                  "multiply q kᵀ by the scale before the softmax", [](Layer& edited) {
                    const double scale = edited.scale();
                    edited.settings.scale = ScaleKind::none;
                    clear_given(edited, {Stage::scaled});
                    give(edited, Stage::weights,
                         each_number(value_of(edited, Stage::weights),
                                     [scale](double a) { return a * scale; }));
                  });
  list.add_rows("softmax.twice", StageSet{Stage::weights}, "takes the softmax twice",
                "take the softmax once", [](Layer& edited) {
                  give(edited, Stage::weights,
                       softmax_over(value_of(edited, Stage::weights), false, false, true));
                });
  list.all_rare();
  return list.take();
}

} // namespace

const Theme softmax_form_theme{
    "softmax_form",
    "softmax.missing softmax.base softmax.plus_one scale.after_softmax softmax.twice",
    softmax_form_changes};

} // namespace mha
