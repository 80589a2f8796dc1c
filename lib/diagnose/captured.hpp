#pragma once
// Tensors of a reference that were captured at another step than their names state, for example
// after the sum or on the other side of a norm.

#include <mha/compare/reference.hpp>
#include <mha/layer/layer.hpp>

#include <string>
#include <vector>

namespace mha {

/// Finds the step of the layer that equals a tensor saved as `stage`: "resid_post", "resid_pre +
/// mlp_out", "the probabilities of logits". "" if there is none. `theirs` has the form of
/// Layer::given.
std::string other_step_of(const Layer& layer, Stage stage, const Tensor& theirs,
                          std::size_t threads);

/// A tensor that was saved under the name of another step.
struct OtherStep {
  Stage stage = Stage::x;
  std::string is; ///< "resid_post", "resid_pre + mlp_out"

  /// "mlp_out was saved from another step: it is resid_post here".
  std::string sentence() const;
  bool operator==(const OtherStep&) const = default;
};

/// The saved stages of a layer that differ and equal another step although a stage computed from
/// them agrees. No change of a formula causes that, so that none needs to be searched for.
std::vector<OtherStep> saved_apart(const Layer& layer, const std::vector<ReferenceStage>& reference,
                                   std::size_t threads);

} // namespace mha
