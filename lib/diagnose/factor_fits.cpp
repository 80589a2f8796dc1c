// Fits factors: a number that multiplies a whole step, the embedding, the logits, or the terms of a
// block's sums.

#include <mha/compare/spread_steps.hpp>
#include <mha/diagnose/causes.hpp>
#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/fitted_changes.hpp>
#include <mha/diagnose/thresholds.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace mha {

namespace {

Change fitted_change(const char* id, Stage stage, std::string did, std::string cure,
                     std::function<void(Layer&)> edit) {
  Change change{id, StageSet{stage}, std::move(did), std::move(cure), std::move(edit)};
  change.fitted = true;
  return change;
}

/// The logits before the cap.
Tensor uncapped(const Tensor& logits, double cap) {
  if (cap == 0) return logits;
  return each_number(logits, [cap](double y) { return before_cap(y, cap); });
}

Change head_scale_change(double factor) {
  return fitted_change("head.scale", Stage::logits,
                       fmt::format("multiplies the logits by {:.4g}", factor), "do not scale them",
                       [factor](Layer& edited) { own_ends(edited).head.scale *= factor; });
}

/// Steps with multipliers of their own in some architectures (μP, Falcon-H1, Granite), or that some
/// libraries save in other units.
constexpr Stage multiplied_stages[]{Stage::x,        Stage::v,        Stage::logsumexp,
                                    Stage::head_out, Stage::output,   Stage::mlp_x,
                                    Stage::mlp_pre,  Stage::mlp_up,   Stage::mlp_act,
                                    Stage::mlp_out,  Stage::attn_add, Stage::mlp_add};

/// A common factor and its name.
struct NamedFactor {
  double value;
  std::string name;
};
std::vector<NamedFactor> named_factors(const Layer& layer) {
  std::vector<NamedFactor> list{{M_LOG2E, "1/ln 2"}, {M_LN2, "ln 2"}};
  for (const auto& [number, name] :
       {std::pair{layer.dims.d_k, "d_k"}, std::pair{layer.dims.d_model, "d_model"},
        std::pair{layer.dims.H, "H"}}) {
    const auto n = static_cast<double>(number);
    if (n < 2) continue;
    list.push_back({std::sqrt(n), fmt::format("√{}", name)});
    list.push_back({1 / std::sqrt(n), fmt::format("1/√{}", name)});
    list.push_back({n, name});
    list.push_back({1 / n, fmt::format("1/{}", name)});
  }
  return list;
}

/// `value` is the factor's name, if any.
Change multiplied_change(Stage stage, double factor, const std::string& value = "") {
  const std::string name(name_of(stage));
  const bool base_2 = stage == Stage::logsumexp && value == "1/ln 2";
  return fitted_change(
      "multiplied", stage,
      base_2
          ? fmt::format("has logsumexp in base 2: it is {:.5g} = 1/ln 2 times this one", factor)
          : fmt::format("multiplies {} by {:.{}g}{}", name, factor,
                        std::fabs(factor - 1) < 1e-3 ? 8 : 4, value.empty() ? "" : " = " + value),
      base_2 ? "take the natural logarithm, or multiply by ln 2 before it is compared"
             : fmt::format("leave {} unscaled", name),
      [stage, factor](Layer& edited) {
        give(edited, stage,
             each_number(value_of(edited, stage), [factor](double a) { return factor * a; }));
      });
}

} // namespace

/// Fits the scale of the token embeddings, in which the embedding is linear.
void CauseSearch::fit_embedding(Trials& trials, Changes& candidates) {
  if (!model_ || !model_->embedding || model_->embedding->norm.present()) return;
  const Change none = embed_scale_change(*model_, 0), once = embed_scale_change(*model_, 1);
  const double factor =
      projection(trials.target().theirs, trials.value({&once}), trials.value({&none}));
  if (std::isfinite(factor)) candidates.push_back(keep(embed_scale_change(*model_, factor)));
}

void CauseSearch::fit_factor(Trials& trials, Changes& candidates) {
  const Stage stage = trials.target().stage;
  const Tensor& theirs = trials.target().theirs;
  const bool head = stage == Stage::logits && layer_.ends;
  if (!head && std::ranges::find(multiplied_stages, stage) == std::end(multiplied_stages)) return;
  const double cap = head ? layer_.ends->head.softcap : 0;
  const double factor = projection(uncapped(theirs, cap), uncapped(trials.value(), cap), {});
  if (factor == 0 || !std::isfinite(factor) || std::fabs(factor - 1) < thresholds::no_factor)
    return;
  // Rounding hides the digits of a fit, so that the exact named number is tried.
  for (const NamedFactor& named : named_factors(layer_)) {
    if (head || std::fabs(factor / named.value - 1) > thresholds::near_named_factor) continue;
    Change change = multiplied_change(stage, named.value, named.name);
    change.once = true, change.fitted = false;
    candidates.push_back(keep(std::move(change)));
  }
  Change change = head ? head_scale_change(factor) : multiplied_change(stage, factor);
  change.once = !head;
  candidates.push_back(keep(std::move(change)));
}

/// Fits the factor of a block's terms by Newton's method: each round projects the remaining
/// difference onto the effect of a small step. One round suffices if the stage is linear in the
/// factor; more are needed if only a later sum is known.
void CauseSearch::fit_residual_scale(Trials& trials, Changes& candidates) {
  if (!layer_.block) return;
  constexpr int rounds = 12, first_rounds = 3;
  constexpr double step = 1e-3, least = 1.0 / 64, most = 64;
  const Tensor& theirs = trials.target().theirs;
  const double unchanged = trials.screen(Changes{}).error;
  for (const Scaled which : all_scaled) {
    double factor = 1;
    for (int i = 0; i < rounds; ++i) {
      const Change here = scaled_change(layer_, which, factor),
                   next = scaled_change(layer_, which, factor * (1 + step));
      if (!trials.concerns(here)) break;
      if (i == first_rounds && trials.screen({&here}).error > thresholds::worth_fitting * unchanged)
        break;
      const double by =
          step * factor * projection(theirs, trials.value({&next}), trials.value({&here}));
      if (!std::isfinite(by)) break;
      factor = std::clamp(factor + by, least, most);
      if (std::fabs(by) < 1e-7 * factor) break;
    }
    if (std::fabs(factor - 1) < thresholds::no_factor_of_sums || factor == least || factor == most)
      continue;
    candidates.push_back(keep(scaled_change(layer_, which, factor)));
  }
}

} // namespace mha
