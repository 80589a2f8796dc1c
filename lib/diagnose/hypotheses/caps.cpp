// Limits: the soft cap of the scores, and the clip of queries, keys and values (MPT, DBRX, OLMo).

#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/fitted_changes.hpp>
#include <mha/diagnose/hypotheses/themes.hpp>

#include <fmt/format.h>

#include <cmath>

namespace mha {

Change softcap_change(const Layer& layer, double cap) {
  const double now = layer.settings.softcap;
  return settings_change(now == 0 ? "softcap.added" : "softcap.value", StageSet{Stage::capped},
                         fmt::format("caps the scores: {0:.6g} · tanh(scaled / {0:.6g})", cap),
                         now == 0 ? "do not cap the scores: this layer has no soft cap"
                                  : fmt::format("use the soft cap {:.6g}, not {:.6g}", now, cap),
                         {{"softcap", cap, 9}});
}

namespace {

/// softcap · tanh((scaled + bias + mask) / softcap), so that masked scores become −softcap.
/// `shown`: the reference's stages have the names of its operations, so that `capped` enters the
/// softmax.
void cap_after_mask(Layer& layer, bool shown) {
  const double cap = layer.settings.softcap;
  Layer uncapped = layer;
  uncapped.settings.softcap = 0;
  clear_given(uncapped, {Stage::capped, Stage::biased, Stage::masked});
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
  for (Stage stage : rest) clear_given(after, {stage});
  const std::vector<Tensor> values = values_of(after, rest);
  for (std::size_t i = 0; i < rest.size(); ++i) give(layer, rest[i], values[i]);
  give(layer, Stage::biased, value_of(uncapped, Stage::biased));
  give(layer, Stage::masked, masked);
  give(layer, Stage::capped, capped);
}

/// softcap · tanh(scores / softcap) · scale, which equals a cap of softcap · scale after the scale.
/// The reference's stages have the names of its operations, so that `scaled` is capped.
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
  ChangeList list;
  list.add_settings("softcap.missing", StageSet{Stage::capped}, "does not cap the scores",
                    fmt::format("cap the scaled scores: {0:.6g} · tanh(scaled / {0:.6g})",
                                layer.settings.softcap),
                    {{"softcap", 0}});

  if (layer.scale() != 1) {
    Change before = softcap_change(layer, layer.settings.softcap * layer.scale());
    before.id = "softcap.before_scale";
    before.did = "caps the scores before the scale";
    before.cure =
        fmt::format("scale the scores first, then cap them at {:.6g}", layer.settings.softcap);
    list.add(before);
    if ((subject.reference & StageSet{Stage::scaled, Stage::capped}).any()) {
      before.touches |=
          StageSet{Stage::scaled, Stage::biased,  Stage::masked,    Stage::row_max, Stage::shifted,
                   Stage::exp,    Stage::row_sum, Stage::logsumexp, Stage::weights};
      list.add_rows(before.id, before.touches, before.did, before.cure, cap_before_scale);
    }
  }

  const StageSet touched = StageSet{Stage::capped, Stage::masked};
  const auto add_after = [&](StageSet touches, bool shown) {
    list.add_rows("softcap.after_mask", touches,
                  "caps the scores after the mask, which turns −∞ into −softcap",
                  "cap the scaled scores first, and add the mask after",
                  [shown](Layer& edited) { cap_after_mask(edited, shown); });
  };
  add_after(touched, false);
  if ((subject.reference & StageSet{Stage::capped, Stage::biased, Stage::masked}).any())
    add_after(touched | StageSet{Stage::biased, Stage::row_max, Stage::shifted, Stage::exp,
                                 Stage::row_sum, Stage::logsumexp, Stage::weights},
              true);
  return list.take();
}

} // namespace

const Theme softcap_theme{
    "softcap",
    "softcap.missing softcap.before_scale softcap.after_mask softcap.value softcap.added",
    softcap_changes};

namespace {

/// The clipped stages; queries and keys with a norm are clipped after it.
StageSet clipped(const Layer& layer) {
  return {layer.q_norm_weight.empty() ? Stage::q : Stage::q_norm,
          layer.k_norm_weight.empty() ? Stage::k : Stage::k_norm, Stage::v};
}

std::vector<Change> clip_changes(const Subject& subject) {
  const double now = subject.layer.settings.clip_qkv;
  if (now == 0) return {};
  Change missing = clip_change(subject.layer, 0);
  missing.id = "clip.missing";
  missing.did = "does not clip q, k and v";
  missing.cure = fmt::format("clip q, k and v to ±{:.6g}", now);
  return {missing};
}

} // namespace

Change clip_change(const Layer& layer, double limit) {
  const double now = layer.settings.clip_qkv;
  return settings_change(now == 0 ? "clip.added" : "clip.value", clipped(layer),
                         fmt::format("clips q, k and v to ±{:.6g}", limit),
                         now == 0 ? "do not clip q, k and v: this layer has no clip_qkv"
                                  : fmt::format("clip them to ±{:.6g}", now),
                         {{"clip_qkv", limit, 9}});
}

const Theme clip_theme{"clip", "clip.missing clip.value clip.added", clip_changes};

} // namespace mha
