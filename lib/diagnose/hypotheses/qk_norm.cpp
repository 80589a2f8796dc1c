// QK normalisation: left out or added, after the rotation, with another weight or formula, over all
// heads, on one side only.

#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/norms.hpp>
#include <mha/diagnose/hypotheses/themes.hpp>
#include <mha/layer/graph.hpp>

#include <cstdint>
#include <functional>
#include <utility>

namespace mha {

namespace {

Tensor ones(std::size_t n, DType dtype) {
  return each_number(Tensor(dtype, {n}), [](double) { return 1.0; });
}

/// The weight repeated for each head.
Tensor repeated(const Tensor& weight, std::size_t heads) {
  Tensor all = Tensor::uninitialised(weight.dtype(), {heads * weight.count()});
  by_precision(weight.dtype(), [&]<class T>(T) {
    for (std::size_t i = 0; i < all.count(); ++i)
      all.as_mutable<T>()[i] = weight.as<T>()[i % weight.count()];
  });
  return all;
}

/// Normalises each head by itself and multiplies by the whole projection's weight.
void normalise_per_head(Layer& layer, Stage stage, Tensor Layer::*weight) {
  if ((layer.*weight).empty() || layer.has_given(stage)) return; // a given stage stays unchanged
  const Tensor w = layer.*weight;
  Layer plain = layer;
  plain.settings.qk_norm_one_plus = false;
  plain.*weight = ones(layer.dims.d_k, w.dtype());
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
  result,     ///< nothing between q, k and the input of the scores
  operations, ///< q_norm is the normalised tensor, which enters the scores
  places,     ///< q_norm is the input of the rotation, q itself
};

/// Rotates q and k before they are normalised.
void normalise_after_rope(Layer& layer, Saved saved) {
  Layer turning = layer;
  turning.q_norm_weight = {}, turning.k_norm_weight = {};
  clear_given(turning, {Stage::q_norm, Stage::k_norm, Stage::q_rope, Stage::k_rope});
  const std::vector<Tensor> turned = values_of(turning, {Stage::q_rope, Stage::k_rope});
  Layer norming = layer;
  clear_given(norming, {Stage::q_norm, Stage::k_norm, Stage::q_rope, Stage::k_rope});
  norming.settings.rope = Rope::none;
  give(norming, Stage::q, turned[0]), give(norming, Stage::k, turned[1]);
  const Tensor q = value_of(norming, Stage::q_norm), k = value_of(norming, Stage::k_norm);
  give(layer, Stage::q_rope, q), give(layer, Stage::k_rope, k);
  if (saved == Saved::places)
    for (const auto& [stage, raw] : {std::pair(Stage::q_norm, Stage::q), {Stage::k_norm, Stage::k}})
      if (step_for(layer, stage) == stage) give(layer, stage, value_of(layer, raw));
  if (saved != Saved::operations) return;
  clear_given(layer, {Stage::k_all, Stage::scores});
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
  const StageSet both = qk_norm_stages() | rotary_stages();
  if (layer.settings.norm_after_rotation) {
    list.add_settings("norm.before_rope", both, "normalises q and k before they are rotated",
                      "rotate q and k first, and normalise them after",
                      {{"norm_after_rotation", false}});
    return list.take();
  }
  const auto add_after_rope = [&](StageSet touches, Saved saved) {
    list.add("norm.after_rope", touches, "rotates q and k first and normalises them after",
             "normalise q and k before they are rotated",
             [saved](Layer& edited) { normalise_after_rope(edited, saved); });
  };
  add_after_rope(rotary_stages(), Saved::result);
  if ((subject.reference & qk_norm_stages()).any()) add_after_rope(both, Saved::places);
  if ((subject.reference & both).any())
    add_after_rope(both | StageSet{Stage::k_all, Stage::scores}, Saved::operations);
  return list.take();
}

/// For a layer that does not normalise q and k.
std::vector<Change> added(const Layer& layer) {
  ChangeList list;
  if (layer.dims.d_k > 1)
    list.add("norm.added", qk_norm_stages(),
             "normalises each head of q and k (RMS, without weights)",
             "do not normalise q and k: this layer does not",
             [](Layer& edited) {
               edited.q_norm_weight = edited.k_norm_weight = ones(edited.dims.d_k, edited.dtype);
               edited.settings.qk_norm_one_plus = false;
             })
        .rare = true;
  return list.take();
}

/// Another formula for the norm of rows.
using HeadForm = std::function<Tensor(const Norm&, const Tensor& rows)>;

HeadForm form_of(const NormForm& form) {
  return [form](const Norm& norm, const Tensor& rows) { return normed(norm, rows, form); };
}
HeadForm of_size(NormSize size) {
  NormForm form;
  form.size = size;
  return form_of(form);
}
Tensor centred(Norm norm, const Tensor& rows) {
  norm.kind = InputNorm::layer;
  return normed(norm, rows, NormForm{});
}
Tensor unweighted(Norm norm, const Tensor& rows) {
  norm.weight = {}, norm.one_plus = false;
  return normed(norm, rows, NormForm{});
}

/// The norm of q or k as an RMSNorm.
Norm rms_of(const Layer& layer, const NormRow& side) {
  Norm norm = side.of(layer);
  if (norm.weight.empty()) fail("another change removed the norm");
  norm.kind = InputNorm::rms, norm.bias = {};
  return norm;
}

void give_formed(Layer& edited, const NormRow& side, const HeadForm& form) {
  const Tensor rows = side.input(edited);
  side.give_result(edited, form(rms_of(edited, side), rows));
}

const char* letter_of(const NormRow& side) {
  return side.makes == Stage::q_norm ? "q" : "k";
}

/// The norm of q or k alone in another form, or with the other's weight.
void add_one_side(const NormRow& side, const NormRow& other, const Layer& layer, ChangeList& list) {
  const bool one_plus = layer.settings.qk_norm_one_plus;
  const char* name = letter_of(side);
  const auto add = [&](const char* id, std::string did, std::string cure, HeadForm form) {
    list.add(id, StageSet{side.makes}, std::move(did), std::move(cure),
             [side, form = std::move(form)](Layer& edited) { give_formed(edited, side, form); });
  };
  NormForm offset;
  offset.weight_offset = one_plus ? -1 : 1;
  add("norm.one_plus",
      fmt::format("multiplies the normalised {} by {}", name, one_plus ? "w" : "1 + w"),
      fmt::format("multiply the normalised {} by {}", name, one_plus ? "1 + w" : "w"),
      form_of(offset));
  add("norm.layer", fmt::format("also subtracts the mean from {} (LayerNorm)", name),
      fmt::format("normalise {} by its root mean square", name), centred);
  add("norm.weight", fmt::format("leaves out the weight of the norm of {}", name),
      fmt::format("multiply the normalised {0} by {0}_norm.weight", name), unweighted);
  if (side.of(layer).weight.count() == other.of(layer).weight.count())
    list.add("norm.exchanged", StageSet{side.makes},
             fmt::format("uses {}'s weight for {}", letter_of(other), name),
             fmt::format("normalise {0} with {0}_norm.weight", name), [side, other](Layer& edited) {
               const Tensor rows = side.input(edited);
               const Norm norm = rms_of(edited, other);
               if (norm.weight.count() != rows.shape().back())
                 fail("another change made the weights of different sizes");
               side.give_result(edited, normed(norm, rows, NormForm{}));
             });
}

/// Values normalised as well.
void add_normed_values(const NormRow& k_side, const Layer& layer, ChangeList& list) {
  if (layer.dims.d_k != layer.dims.d_v || !layer.v_norm_weight.empty()) return;
  for (const bool weighted : {true, false})
    list.add("norm.added.v", StageSet{Stage::v},
             fmt::format("also normalises v{}", weighted ? ", with the weight of k's norm" : ""),
             "do not normalise v",
             [k_side, weighted](Layer& edited) {
               const Norm norm = rms_of(edited, k_side);
               const Tensor v = value_of(edited, Stage::v),
                            rows =
                                v.reshaped({v.count() / norm.weight.count(), norm.weight.count()});
               give(edited, Stage::v,
                    (weighted ? normed(norm, rows, NormForm{}) : unweighted(norm, rows))
                        .reshaped(v.shape()));
             })
        .once = true;
}

std::vector<Change> qk_norm_changes(const Subject& subject) {
  const Layer& layer = subject.layer;
  const std::vector<NormRow> sides = norms_of(layer, qk_norm_stages());
  if (sides.empty()) return added(layer);
  ChangeList list;
  const auto add = [&](const char* id, std::string did, const HeadForm& form) {
    list.add(id, qk_norm_stages(), std::move(did),
             "normalise q and k by their root mean square: x / √(mean(x²) + ε) · w",
             [sides, form](Layer& edited) {
               for (const NormRow& side : sides)
                 if (side.of(edited).present() && !edited.has_given(side.makes))
                   give_formed(edited, side, form);
             });
  };
  for (double eps : {1e-5, 1e-6, 1e-7, 1e-12, 1e-8, 1e-4, 1e-3, 1e-2, 0.0})
    if (eps != layer.settings.qk_norm_eps) list.add(qk_norm_eps_change(layer, eps));
  add("norm.layer", "also subtracts the mean from {} (LayerNorm)", centred);
  add("norm.sum", "divides q and k by their length √(Σx² + ε), not by their root mean square",
      of_size(NormSize::length));
  add("norm.sum", "adds ε to the sum of squares, not to their mean", of_size(NormSize::eps_in_sum));
  add("norm.sum", "adds ε to the root, not under it", of_size(NormSize::eps_outside));
  add("norm.weight", "leaves out the weights of the norms of q and k", unweighted);
  for (const NormRow& side : sides)
    list.add(fmt::format("norm.missing.{}", letter_of(side)), StageSet{side.makes},
             fmt::format("does not normalise {}", letter_of(side)),
             fmt::format("normalise {} as well", letter_of(side)),
             [side](Layer& edited) { side.put(edited, Norm{}); });
  if (sides.size() == 2) {
    add_one_side(sides[0], sides[1], layer, list), add_one_side(sides[1], sides[0], layer, list);
    add_normed_values(sides[1], layer, list);
  }
  if (layer.q_norm_weight.count() == layer.k_norm_weight.count())
    list.add("norm.exchanged", qk_norm_stages(), "exchanges the weights of the norms of q and k",
             "normalise q with q_norm.weight and k with k_norm.weight",
             [](Layer& edited) { // another change may have given them other sizes
               if (edited.q_norm_weight.count() == edited.k_norm_weight.count())
                 std::swap(edited.q_norm_weight, edited.k_norm_weight);
             });
  list.all_rare();
  return list.take();
}

} // namespace

Change qk_norm_eps_change(const Layer& layer, double eps) {
  return settings_change("norm.eps", qk_norm_stages(),
                         fmt::format("normalises q and k with ε = {:.4g}", eps),
                         fmt::format("normalise q and k with ε = {:g}", layer.settings.qk_norm_eps),
                         {{"qk_norm_eps", eps, 9}});
}

const Theme norm_theme{"norm", "norm.missing norm.after_rope norm.before_rope norm.one_plus norm.full",
                       norm_changes};

const Theme qk_norm_theme{
    "qk_norm",
    "norm.added norm.added.v norm.layer norm.sum norm.weight norm.eps norm.missing.q "
    "norm.missing.k norm.exchanged",
    qk_norm_changes};

} // namespace mha
