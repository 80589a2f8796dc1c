// Factors found by fitting: one number that multiplies a whole step, the embedding or the logits.

#include <mha/diagnose/causes.hpp>
#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/embedding.hpp>
#include <mha/diagnose/hypotheses/surroundings.hpp>

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

/// Logits before their cap.
Tensor uncapped(const Tensor& logits, double cap) {
  if (cap == 0) return logits;
  return each_number(logits, [cap](double y) {
    constexpr double nearest = 1 - 1e-6; // a logit at the cap tells nothing
    return cap * std::atanh(std::clamp(y / cap, -nearest, nearest));
  });
}

Change head_scale_change(double factor) {
  return fitted_change(
      "head.scale", Stage::logits, fmt::format("multiplies the logits by {:.4g}", factor),
      "take them as they are", [factor](Layer& edited) { own_ends(edited).head.scale *= factor; });
}

/// Steps that architectures with multipliers (μP, Falcon-H1, Granite) scale by themselves.
constexpr Stage multiplied_stages[]{Stage::x,        Stage::v,      Stage::output,  Stage::mlp_x,
                                    Stage::mlp_pre,  Stage::mlp_up, Stage::mlp_act, Stage::mlp_out,
                                    Stage::attn_add, Stage::mlp_add};

Change multiplied_change(Stage stage, double factor) {
  const std::string name(name_of(stage));
  return fitted_change(
      "multiplied", stage, fmt::format("multiplies {} by {:.4g}", name, factor),
      fmt::format("take {} as it is", name), [stage, factor](Layer& edited) {
        give(edited, stage,
             each_number(value_of(edited, stage), [factor](double a) { return factor * a; }));
      });
}

} // namespace

/// The scale of the tokens' rows, in which a sum with positions is linear.
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
  if (factor == 0 || !std::isfinite(factor)) return;
  Change change = head ? head_scale_change(factor) : multiplied_change(stage, factor);
  change.once = !head;
  candidates.push_back(keep(std::move(change)));
}

} // namespace mha
