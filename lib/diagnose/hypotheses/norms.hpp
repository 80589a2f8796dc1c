#pragma once
// The norms of a layer as rows of a table, so that each mistake with a norm is written once for all
// of them.

#include <mha/diagnose/hypotheses/change.hpp>
#include <mha/diagnose/hypotheses/norm_forms.hpp>

#include <string>
#include <vector>

namespace mha {

/// A norm of a layer or of a model's end, identified by the stage that it computes.
struct NormRow {
  Stage makes;
  const char* name; ///< in messages

  /// The norm; not present() if the layer does not have it.
  Norm of(const Layer& layer) const;
  /// The input of the norm. For queries and keys the rows are as long as the weight.
  Tensor input(const Layer& layer) const;
  /// Replaces or removes the norm. Queries and keys share all but the weights, so that both change.
  void put(Layer& layer, const Norm& norm) const;
  /// Gives the result of the norm to the layer.
  void give_result(Layer& layer, const Tensor& rows) const;
};

/// Whether a norm only multiplies all numbers by the same factor.
bool is_multiplier(const Norm& norm);
/// The norms of a layer that compute one of these stages, in the order of the computation, without
/// mere multipliers.
std::vector<NormRow> norms_of(const Layer& layer, StageSet made = StageSet::all());
/// The stages that the norms of a block compute.
inline StageSet own_norms_of_block() {
  return StageSet{Stage::attn_add,     Stage::mlp_x,       Stage::router_x, Stage::experts_x,
                  Stage::experts_norm, Stage::shared_norm, Stage::mlp_add,  Stage::resid_post};
}
/// Those that one module computes in code, the norm before attention among them. A router has its
/// own, a norm without a weight times a scale.
inline StageSet norms_around() {
  return (StageSet{Stage::x} | own_norms_of_block()) & ~StageSet{Stage::router_x};
}
/// The norm before attention as a Norm.
Norm attention_norm(const Layer& layer);

/// Norms that are changed together.
struct NormGroup {
  std::string id;   ///< the first part of its changes' ids: "block_norm"
  std::string name; ///< in messages
  std::vector<NormRow> rows;
  bool one_id = false; ///< any change of form has the id "last_norm.form"

  StageSet makes() const;
};

/// The names, in messages, of all norms of a layer, without and with those of queries and keys.
inline constexpr const char* every_norm = "every norm of the layer";
inline constexpr const char* every_norm_and_heads = "every norm of the layer and of q and k";
/// The norms of a block including the one before attention. The second function adds those of
/// queries and keys, and is empty unless the layer has both.
NormGroup all_norms(const Layer& layer);
NormGroup all_norms_and_heads(const Layer& layer);
/// A model's last norm.
NormGroup last_norm(const Layer& layer);

/// Another ε in the norm before the projections, or in the norms of q and k.
Change input_norm_eps_change(const Layer& layer, double eps);
Change qk_norm_eps_change(const Layer& layer, double eps);

/// The norms are left out, applied twice, or have another form.
Change missing(const NormGroup& group);
Change twice(const NormGroup& group);
Change formed(const NormGroup& group, const OtherNorm& other);

} // namespace mha
