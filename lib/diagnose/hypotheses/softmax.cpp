// The softmax over queries, sinks left out, averaged weights, and dropout.

#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/fitted_changes.hpp>
#include <mha/diagnose/hypotheses/themes.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace mha {

namespace {

/// The softmax down the columns, over the queries. masked: B, H, T, S.
Tensor over_queries(const Tensor& masked) {
  Tensor weights = Tensor::uninitialised(masked.dtype(), masked.shape());
  const std::size_t T = masked.shape()[2], S = masked.shape()[3],
                    maps = masked.shape()[0] * masked.shape()[1];
  by_precision(masked.dtype(), [&]<class Number>(Number) {
    std::vector<Number> max(S);
    std::vector<double> sum(S);
    for (std::size_t map = 0; map < maps; ++map) {
      const Number* from = masked.as<Number>().data() + map * T * S;
      Number* to = weights.as_mutable<Number>().data() + map * T * S;
      std::fill(max.begin(), max.end(), -std::numeric_limits<Number>::infinity());
      std::fill(sum.begin(), sum.end(), 0.0);
      for (std::size_t t = 0; t < T; ++t)
        for (std::size_t j = 0; j < S; ++j) max[j] = std::max(max[j], from[t * S + j]);
      for (std::size_t t = 0; t < T; ++t)
        for (std::size_t j = 0; j < S; ++j) {
          const Number e = std::isinf(max[j]) ? Number(0) : std::exp(from[t * S + j] - max[j]);
          sum[j] += static_cast<double>(e);
          to[t * S + j] = e;
        }
      for (std::size_t j = 0; j < S; ++j) max[j] = static_cast<Number>(sum[j] > 0 ? 1 / sum[j] : 0);
      for (std::size_t t = 0; t < T; ++t)
        for (std::size_t j = 0; j < S; ++j) to[t * S + j] *= max[j];
    }
  });
  return weights;
}

/// The mean of the weights over the heads, for every head.
Tensor mean_of_heads(const Tensor& weights) {
  Tensor means = Tensor::uninitialised(weights.dtype(), weights.shape());
  const std::size_t B = weights.shape()[0], H = weights.shape()[1],
                    n = weights.shape()[2] * weights.shape()[3];
  by_precision(weights.dtype(), [&]<class Number>(Number) {
    std::vector<double> mean(n);
    for (std::size_t b = 0; b < B; ++b) {
      std::fill(mean.begin(), mean.end(), 0.0);
      for (std::size_t h = 0; h < H; ++h) {
        const Number* from = weights.as<Number>().data() + (b * H + h) * n;
        for (std::size_t i = 0; i < n; ++i) mean[i] += static_cast<double>(from[i]);
      }
      for (std::size_t h = 0; h < H; ++h) {
        Number* to = means.as_mutable<Number>().data() + (b * H + h) * n;
        for (std::size_t i = 0; i < n; ++i)
          to[i] = static_cast<Number>(mean[i] / static_cast<double>(H));
      }
    }
  });
  return means;
}

std::vector<Change> softmax_changes(const Subject& subject) {
  const Layer& layer = subject.layer;
  ChangeList list;
  if (layer.dims.T > 1)
    list.add("softmax.axis", StageSet{Stage::weights},
             "takes the softmax over the queries, down the columns of the scores",
             "take the softmax over the keys, the last axis of (H, T, S)", [](Layer& edited) {
               give(edited, Stage::weights, over_queries(value_of(edited, Stage::masked)));
             });
  if (!layer.sinks.empty())
    list.add("sinks.missing", StageSet{Stage::row_max, Stage::row_sum},
             "leaves the sinks out of the softmax",
             "let each head's sink join the softmax's maximum and sum, and drop its column",
             [](Layer& edited) { edited.sinks = {}; });
  if (layer.dims.H < 2) return list.take();
  list.add_rows("weights.averaged", StageSet{Stage::weights},
                "averages the weights over the heads, and uses the mean in every head",
                "keep the weights of each head: do not average them over the heads",
                [](Layer& edited) {
                  give(edited, Stage::weights, mean_of_heads(value_of(edited, Stage::weights)));
                });
  if (contains(subject.reference, Stage::weights))
    list.add_rows(
        "weights.averaged", StageSet{Stage::weights, Stage::head_out},
        "returns weights averaged over the heads, but computes with each head's own",
        "ask for the weights of each head (PyTorch: average_attn_weights=False)",
        [](Layer& edited) {
          Layer plain = edited;
          clear_given(plain, {Stage::weights});
          const std::vector<Tensor> values = values_of(plain, {Stage::weights, Stage::head_out});
          give(edited, Stage::weights, mean_of_heads(values[0]));
          give(edited, Stage::head_out, values[1]);
        });
  return list.take();
}

} // namespace

bool drops(Stage stage) {
  using enum Stage;
  return StageSet{weights, embed, output, attn_add, mlp_act, mlp_out, mlp_add}.contains(stage);
}

std::optional<Change> dropout_change(Stage stage, const Tensor& ours, const Tensor& theirs) {
  // Numbers are w / (1 − p) or 0.
  std::vector<double> ratios;
  std::size_t dropped = 0;
  for (std::size_t i = 0; i < ours.count(); ++i) {
    const double w = value_at(ours, i), r = value_at(theirs, i);
    if (!(std::fabs(w) > 1e-5)) continue;
    if (r == 0)
      ++dropped;
    else
      ratios.push_back(r / w);
  }
  if (dropped == 0 || ratios.size() < 4) return std::nullopt;
  const auto middle = ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 2);
  std::nth_element(ratios.begin(), middle, ratios.end());
  const double factor = *middle;
  if (!(factor >= 1) || !std::isfinite(factor)) return std::nullopt;
  // p by the factor and by the share of zeros must agree roughly.
  const double p = 1 - 1 / factor,
               share = static_cast<double>(dropped) / static_cast<double>(dropped + ratios.size()),
               spread =
                   std::sqrt(share * (1 - share) / static_cast<double>(dropped + ratios.size()));
  if (std::fabs(p - share) > 5 * spread + 0.02) return std::nullopt;
  Tensor kept = Tensor::uninitialised(ours.dtype(), ours.shape());
  by_precision(ours.dtype(), [&]<class Number>(Number) {
    for (std::size_t i = 0; i < kept.count(); ++i)
      kept.as_mutable<Number>()[i] =
          value_at(theirs, i) == 0 ? Number(0) : static_cast<Number>(factor);
  });
  Change change{"dropout.on", StageSet{stage},
                fmt::format("drops numbers of {} at random: {:.1f} % are 0, the others are divided "
                            "by 1 − p with p = {:.3g}",
                            info_of(stage).name, 100 * share, p),
                "turn dropout off: evaluation mode, or dropout_p = 0",
                [kept, stage](Layer& edited) {
                  Tensor value = copied(value_of(edited, stage));
                  by_precision(value.dtype(), [&]<class Number>(Number) {
                    for (std::size_t i = 0; i < value.count(); ++i)
                      value.as_mutable<Number>()[i] *= kept.as<Number>()[i];
                  });
                  if (stage == Stage::embed)
                    own_ends(edited).embed = value;
                  else
                    give(edited, stage, value);
                }};
  change.fitted = true;
  return change;
}

const Theme softmax_theme{"softmax",
                          "softmax.axis sinks.missing sinks.added weights.averaged dropout.on",
                          softmax_changes};

} // namespace mha
