// Queries, keys and values clipped to a range, as MPT, DBRX and OLMo do.

#include <mha/diagnose/hypotheses/clip.hpp>
#include <mha/diagnose/hypotheses/themes.hpp>

#include <fmt/format.h>

namespace mha {

namespace {

/// What is clipped: queries and keys that are normalised first, behind their norm.
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
