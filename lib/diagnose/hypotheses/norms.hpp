#pragma once
// The norms of a layer as rows: what is confused in a norm is written once, over the rows.

#include <mha/diagnose/hypotheses/change.hpp>
#include <mha/diagnose/hypotheses/norm_forms.hpp>

#include <string>
#include <vector>

namespace mha {

/// A norm of a layer, or of a model's end, known by the stage that it makes.
struct NormRow {
  Stage makes;
  const char* name; ///< in messages

  /// The norm; none: the layer does not have it.
  Norm of(const Layer& layer) const;
  /// What it norms. Of queries and keys a row is as long as the weight.
  Tensor input(const Layer& layer) const;
  /// The layer gets another, or none. Queries and keys share all but the weights: both are put.
  void put(Layer& layer, const Norm& norm) const;
  /// The layer gets what the norm makes.
  void give_result(Layer& layer, const Tensor& rows) const;
};

/// Whether a norm only multiplies, all numbers by the same.
bool is_multiplier(const Norm& norm);
/// Those of a layer that make one of these stages, in the order of the computation; none that only
/// multiplies.
std::vector<NormRow> norms_of(const Layer& layer, StageSet made = StageSet::all());
/// The stages that the norms of a block make, and attention's own before them.
inline StageSet own_norms_of_block() {
  return StageSet{Stage::attn_add, Stage::mlp_x, Stage::mlp_add, Stage::resid_post};
}
inline StageSet norms_around() {
  return StageSet{Stage::x} | own_norms_of_block();
}
/// The norm before attention, as a block's norms are.
Norm attention_norm(const Layer& layer);

/// Norms that are changed as one.
struct NormGroup {
  std::string id;   ///< of its changes, before the form's: "block_norm"
  std::string name; ///< in messages
  std::vector<NormRow> rows;
  bool one_id = false; ///< a change to any form is "last_norm.form"

  StageSet makes() const;
};

/// What messages call all norms of a layer, and them with those of queries and keys.
inline constexpr const char* every_norm = "every norm of the layer";
inline constexpr const char* every_norm_and_heads = "every norm of the layer and of q and k";
/// A block's norms, attention's own before them; and with those of queries and keys, where the
/// layer has both. Empty: it has not.
NormGroup all_norms(const Layer& layer);
NormGroup all_norms_and_heads(const Layer& layer);
/// A model's last norm.
NormGroup last_norm(const Layer& layer);

/// Another ε in the norm before the projections, and in the norms of q and k.
Change input_norm_eps_change(const Layer& layer, double eps);
Change qk_norm_eps_change(const Layer& layer, double eps);

/// None of the norms is applied; each is applied twice; each has another form.
Change missing(const NormGroup& group);
Change twice(const NormGroup& group);
Change formed(const NormGroup& group, const OtherNorm& other);

} // namespace mha
