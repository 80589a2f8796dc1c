#pragma once
// Tensors of a reference that are another step than their names say: a capture behind the sum, on
// the other side of a norm.

#include <mha/compare/reference.hpp>
#include <mha/layer/layer.hpp>

#include <string>
#include <vector>

namespace mha {

/// What of the layer's own steps a tensor is, where it is not the stage that it was saved as:
/// "resid_post", "resid_pre + mlp_out", "the probabilities of logits"; "" where it is none.
/// `theirs` in the form of Layer::given.
std::string other_step_of(const Layer& layer, Stage stage, const Tensor& theirs,
                          std::size_t threads);

/// A tensor that is another step than it was saved as.
struct OtherStep {
  Stage stage = Stage::x;
  std::string is; ///< "resid_post", "resid_pre + mlp_out"

  /// "mlp_out was saved from another step: it is resid_post here".
  std::string sentence() const;
  bool operator==(const OtherStep&) const = default;
};

/// Of a layer's saved stages, those that differ and are another step, while a stage that is
/// computed from them agrees: then no change of a formula is behind them, and none needs to be
/// sought.
std::vector<OtherStep> saved_apart(const Layer& layer, const std::vector<ReferenceStage>& reference,
                                   std::size_t threads);

} // namespace mha
