// The soft cap of the scores: whether, and before or after the mask.

#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/softcap.hpp>
#include <mha/diagnose/hypotheses/themes.hpp>

#include <fmt/format.h>

#include <cmath>

namespace mha {

Change softcap_change(const Layer& layer, double cap) {
  const double now = layer.settings.softcap;
  Change change;
  change.id = now == 0 ? "softcap.added" : "softcap.value";
  change.touches = StageSet{Stage::capped};
  change.did = fmt::format("caps the scores: {0:.6g} · tanh(scaled / {0:.6g})", cap);
  change.cure = now == 0 ? "do not cap the scores: this layer has no soft cap"
                         : fmt::format("take the soft cap {:.6g}, not {:.6g}", now, cap);
  change.option = fmt::format("--softcap {:.9g}", cap);
  change.edit = [cap](Layer& edited) { edited.settings.softcap = cap; };
  return change;
}

namespace {

/// softcap · tanh((scaled + bias + mask) / softcap): what is masked gets −softcap. `shown`: the
/// reference's stages bear the names of the operations, so that the softmax sees `capped`.
void cap_after_mask(Layer& layer, bool shown) {
  const double cap = layer.settings.softcap;
  Layer uncapped = layer;
  uncapped.settings.softcap = 0;
  take_back(uncapped, {Stage::capped, Stage::biased, Stage::masked});
  const Tensor masked = value_of(uncapped, Stage::masked);
  const Tensor capped = each_number(masked, [cap](double a) { return cap * std::tanh(a / cap); });
  Layer after = layer;
  give(after, Stage::masked, capped);
  if (!shown) {
    layer = after;
    return;
  }
  const std::vector<Stage> rest{Stage::row_max, Stage::shifted,   Stage::exp,
                                Stage::row_sum, Stage::logsumexp, Stage::weights};
  for (Stage stage : rest) take_back(after, {stage});
  const std::vector<Tensor> values = values_of(after, rest);
  for (std::size_t i = 0; i < rest.size(); ++i) give(layer, rest[i], values[i]);
  give(layer, Stage::biased, value_of(uncapped, Stage::biased));
  give(layer, Stage::masked, masked);
  give(layer, Stage::capped, capped);
}

/// softcap · tanh(scores / softcap) · scale, which is a cap of softcap · scale behind the scale.
/// Here the reference's stages bear the names of the operations, so that `scaled` is capped.
void cap_before_scale(Layer& layer) {
  const double cap = layer.settings.softcap;
  Layer other = layer;
  other.settings.softcap = cap * layer.scale();
  std::vector<Stage> rest{Stage::capped};
  for (Stage stage : {Stage::biased, Stage::masked, Stage::row_max, Stage::shifted, Stage::exp,
                      Stage::row_sum, Stage::logsumexp, Stage::weights})
    if (step_for(layer, stage) == stage) rest.push_back(stage);
  const Tensor scores = value_of(layer, Stage::scores);
  const std::vector<Tensor> values = values_of(other, rest);
  for (std::size_t i = 1; i < rest.size(); ++i) give(layer, rest[i], values[i]);
  give(layer, Stage::scaled, values[0]);
  give(layer, Stage::capped,
       each_number(scores, [cap](double a) { return cap * std::tanh(a / cap); }));
}

std::vector<Change> softcap_changes(const Subject& subject) {
  const Layer& layer = subject.layer;
  if (layer.settings.softcap == 0) return {};
  std::vector<Change> list;
  Change missing;
  missing.id = "softcap.missing";
  missing.touches = StageSet{Stage::capped};
  missing.did = "does not cap the scores";
  missing.cure = fmt::format("cap the scaled scores: {0:.6g} · tanh(scaled / {0:.6g})",
                             layer.settings.softcap);
  missing.option = "--softcap 0";
  missing.edit = [](Layer& edited) { edited.settings.softcap = 0; };
  list.push_back(missing);

  if (layer.scale() != 1) {
    Change before = softcap_change(layer, layer.settings.softcap * layer.scale());
    before.id = "softcap.before_scale";
    before.did = "caps the scores before the scale";
    before.cure =
        fmt::format("scale the scores first, then cap them at {:.6g}", layer.settings.softcap);
    list.push_back(before);
    if ((subject.reference & StageSet{Stage::scaled, Stage::capped}).any()) {
      before.touches |=
          StageSet{Stage::scaled, Stage::biased,  Stage::masked,    Stage::row_max, Stage::shifted,
                   Stage::exp,    Stage::row_sum, Stage::logsumexp, Stage::weights};
      before.option.clear();
      before.edit = [](Layer&) {};
      before.edit_rows = [](Layer& edited) { cap_before_scale(edited); };
      list.push_back(before);
    }
  }

  Change after;
  after.id = "softcap.after_mask";
  after.touches = StageSet{Stage::capped, Stage::masked};
  after.did = "caps the scores after the mask, which turns −∞ into −softcap";
  after.cure = "cap the scaled scores first, and add the mask after";
  after.edit = [](Layer&) {};
  after.edit_rows = [](Layer& edited) { cap_after_mask(edited, false); };
  list.push_back(after);
  if ((subject.reference & StageSet{Stage::capped, Stage::biased, Stage::masked}).any()) {
    after.touches |= StageSet{Stage::biased,  Stage::row_max,   Stage::shifted, Stage::exp,
                              Stage::row_sum, Stage::logsumexp, Stage::weights};
    after.edit_rows = [](Layer& edited) { cap_after_mask(edited, true); };
    list.push_back(after);
  }
  return list;
}

} // namespace

const Theme softcap_theme{
    "softcap",
    "softcap.missing softcap.before_scale softcap.after_mask softcap.value softcap.added",
    softcap_changes};

} // namespace mha
