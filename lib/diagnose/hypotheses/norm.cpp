// QK normalisation: whether, when, with which weight, over what.

#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/themes.hpp>
#include <mha/layer/graph.hpp>

#include <cstdint>
#include <utility>

namespace mha {

namespace {

/// `weight` of d numbers, `heads` times.
Tensor repeated(const Tensor& weight, std::size_t heads) {
  Tensor all = Tensor::uninitialised(weight.dtype(), {heads * weight.count()});
  by_precision(weight.dtype(), [&]<class T>(T) {
    for (std::size_t i = 0; i < all.count(); ++i)
      all.as_mutable<T>()[i] = weight.as<T>()[i % weight.count()];
  });
  return all;
}

/// Each head by itself, then times the whole projection's weight.
void normalise_per_head(Layer& layer, Stage stage, Tensor Layer::*weight) {
  if ((layer.*weight).empty() || layer.has_given(stage)) return; // given ones stay
  const Tensor w = layer.*weight;
  Layer plain = layer;
  plain.settings.qk_norm_one_plus = false;
  plain.*weight = each_number(Tensor(w.dtype(), {layer.dims.d_k}), [](double) { return 1.0; });
  const double more = layer.settings.qk_norm_one_plus ? 1 : 0;
  Tensor value = copied(value_of(plain, stage));
  by_precision(value.dtype(), [&]<class T>(T) {
    const auto numbers = value.as_mutable<T>();
    const auto weights = w.as<T>();
    for (std::size_t i = 0; i < numbers.size(); ++i)
      numbers[i] *= weights[i % weights.size()] + static_cast<T>(more);
  });
  give(layer, stage, std::move(value));
}

/// What a reference that rotates first saved under the stages' names.
enum class Saved : std::uint8_t {
  result,     ///< nothing between q, k and what enters the scores
  operations, ///< q_norm is what was normalised: it enters the scores
  places,     ///< q_norm is what enters the rotation: q itself
};

/// Rotated, then normalised.
void normalise_after_rope(Layer& layer, Saved saved) {
  Layer turning = layer;
  turning.q_norm_weight = {}, turning.k_norm_weight = {};
  take_back(turning, {Stage::q_norm, Stage::k_norm, Stage::q_rope, Stage::k_rope});
  const std::vector<Tensor> turned = values_of(turning, {Stage::q_rope, Stage::k_rope});
  Layer norming = layer;
  take_back(norming, {Stage::q_norm, Stage::k_norm, Stage::q_rope, Stage::k_rope});
  norming.settings.rope = Rope::none;
  give(norming, Stage::q, turned[0]), give(norming, Stage::k, turned[1]);
  const Tensor q = value_of(norming, Stage::q_norm), k = value_of(norming, Stage::k_norm);
  give(layer, Stage::q_rope, q), give(layer, Stage::k_rope, k);
  if (saved == Saved::places)
    for (const auto& [stage, raw] : {std::pair(Stage::q_norm, Stage::q), {Stage::k_norm, Stage::k}})
      if (step_for(layer, stage) == stage) give(layer, stage, value_of(layer, raw));
  if (saved != Saved::operations) return;
  take_back(layer, {Stage::k_all, Stage::scores});
  if (has_step(layer, Stage::k_all)) give(layer, Stage::k_all, value_of(layer, Stage::k_all));
  give(layer, Stage::scores, value_of(layer, Stage::scores));
  give(layer, Stage::q_rope, turned[0]), give(layer, Stage::k_rope, turned[1]);
  if (!layer.q_norm_weight.empty()) give(layer, Stage::q_norm, q);
  if (!layer.k_norm_weight.empty()) give(layer, Stage::k_norm, k);
}

std::vector<Change> norm_changes(const Subject& subject) {
  const Layer& layer = subject.layer;
  if (layer.q_norm_weight.empty() && layer.k_norm_weight.empty()) return {};
  const Dims& dims = layer.dims;
  ChangeList list;
  list.add("norm.missing", qk_norm_stages(), "does not normalise q and k",
           "normalise q and k (RMS) before the scores",
           [](Layer& edited) { edited.q_norm_weight = {}, edited.k_norm_weight = {}; });
  const bool one_plus = layer.settings.qk_norm_one_plus;
  list.add_settings(
      "norm.one_plus", qk_norm_stages(),
      fmt::format("multiplies the normalised q and k by {}", one_plus ? "w" : "1 + w"),
      fmt::format("multiply the normalised q and k by {}", one_plus ? "1 + w" : "w"),
      {{"qk_norm_one_plus", !one_plus}});
  const std::size_t width =
      layer.q_norm_weight.empty() ? layer.k_norm_weight.count() : layer.q_norm_weight.count();
  if (dims.H > 1 && width == dims.d_k)
    list.add("norm.full", qk_norm_stages(), "normalises q and k over all heads at once",
             "normalise each head of q and k by itself", [](Layer& edited) {
               if (!edited.q_norm_weight.empty())
                 edited.q_norm_weight = repeated(edited.q_norm_weight, edited.dims.H);
               if (!edited.k_norm_weight.empty())
                 edited.k_norm_weight = repeated(edited.k_norm_weight, edited.dims.H_kv);
             });
  else if (dims.H > 1)
    list.add("norm.full", qk_norm_stages(), "normalises each head of q and k by itself",
             "normalise q and k over all heads at once, before they are split", [](Layer& edited) {
               normalise_per_head(edited, Stage::q_norm, &Layer::q_norm_weight);
               normalise_per_head(edited, Stage::k_norm, &Layer::k_norm_weight);
             });
  if (layer.settings.rope == Rope::none) return list.take();
  const auto add_after_rope = [&](StageSet touches, Saved saved) {
    list.add("norm.after_rope", touches, "rotates q and k first and normalises them after",
             "normalise q and k before they are rotated",
             [saved](Layer& edited) { normalise_after_rope(edited, saved); });
  };
  const StageSet both = qk_norm_stages() | rotary_stages();
  add_after_rope(rotary_stages(), Saved::result);
  if ((subject.reference & qk_norm_stages()).any()) add_after_rope(both, Saved::places);
  if ((subject.reference & both).any())
    add_after_rope(both | StageSet{Stage::k_all, Stage::scores}, Saved::operations);
  return list.take();
}

} // namespace

const Theme norm_theme{"norm", "norm.missing norm.after_rope norm.one_plus norm.full",
                       norm_changes};

} // namespace mha
