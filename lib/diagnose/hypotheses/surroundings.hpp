#pragma once
// Tools of edits around attention: norms, products and blocks of a whole model, changed.

#include <mha/layer/layer.hpp>

#include <functional>
#include <string>
#include <vector>

namespace mha {

/// The layer's own copy of its block, to be changed.
TransformerBlock& own_block(Layer& layer);
/// The same of a model's ends.
ModelEnds& own_ends(Layer& layer);

/// The norm before attention, as a block's norms are.
Norm attention_norm(const Layer& layer);

/// The parts of a norm that others have otherwise.
struct NormForm {
  bool centres = true; ///< a LayerNorm subtracts the mean
  bool adds_bias = true;
  bool unbiased = false;    ///< variance over n − 1
  bool eps_outside = false; ///< x / (σ + ε)
  double weight_offset = 0; ///< times w + this
};
/// The norm of rows (…, d) in such a form, computed in double.
Tensor normed(const Norm& norm, const Tensor& rows, const NormForm& form);

/// One other form of a norm.
struct OtherNorm {
  std::string id;   ///< what follows the norm's name in a change's: "eps", "one_plus"
  std::string did;  ///< after "the reference", with {} for the norm: "leaves out {}'s weight"
  std::string cure; ///< the same
  std::function<Norm(Norm)> form; ///< empty: no Norm is like it, and `rows` computes it
  std::function<Tensor(const Norm&, const Tensor& rows)> rows;
};
/// What implementations confuse in a norm that is there.
std::vector<OtherNorm> other_norms(const Norm& norm);
/// "{}" replaced.
std::string with_name(std::string text, std::string_view name);

/// A norm of rows (B, T, d), of the layer's precision.
Tensor normed(const Norm& norm, const Tensor& rows);

} // namespace mha
