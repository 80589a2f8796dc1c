#pragma once
// Tools of edits around attention: norms, products and blocks of a whole model, changed.

#include <mha/diagnose/hypotheses/edit.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace mha {

/// The layer's own copy of its block, to be changed.
TransformerBlock& own_block(Layer& layer);
/// The same of a model's ends.
ModelEnds& own_ends(Layer& layer);

/// The map whose output i is output from(i).
template <class F> LinearMap with_outputs(const LinearMap& map, F from) {
  return {columns_from(map.W, from), columns_from(map.b, from)};
}

/// The norm before attention, as a block's norms are.
Norm attention_norm(const Layer& layer);

/// What a norm divides by.
enum class NormSize : std::uint8_t {
  root,        ///< √(variance + ε)
  eps_outside, ///< √variance + ε
  larger,      ///< the larger of √variance and ε
  length,      ///< √(Σ x² + ε)
  variance,    ///< variance + ε, without the root
};

/// The parts of a norm that others have otherwise.
struct NormForm {
  bool centres = true; ///< a LayerNorm subtracts the mean
  bool adds_bias = true;
  bool bias_first = false; ///< (x̂ + b) w
  bool unbiased = false;   ///< variance over n − 1
  bool about_zero = false; ///< mean of squares for the variance, though x is centred
  bool of_text = false;    ///< one mean and one variance of all rows of a text
  NormSize size = NormSize::root;
  double weight_offset = 0; ///< times w + this
};
/// The norm of rows (…, d) in such a form, computed in double.
Tensor normed(const Norm& norm, const Tensor& rows, const NormForm& form);

/// A form of rows that no Norm has, in the words of OtherNorm.
struct NormForRows {
  std::string id, did, cure;
  NormForm form;
};
/// Those that implementations give a norm; without `of_all`, those that one norm alone may have.
std::vector<NormForRows> row_forms(const Norm& norm, bool of_all);

/// What messages call all norms of a layer, and them with those of q and k.
inline constexpr const char* every_norm = "every norm of the layer";
inline constexpr const char* every_norm_and_heads = "every norm of the layer and of q and k";

/// One other form of a norm.
struct OtherNorm {
  std::string id;   ///< what follows the norm's name in a change's: "eps", "one_plus"
  std::string did;  ///< after "the reference", with {} for the norm: "leaves out {}'s weight"
  std::string cure; ///< the same
  std::function<Norm(Norm)> form; ///< empty: no Norm is like it, and `rows` computes it
  std::function<Tensor(const Norm&, const Tensor& rows)> rows;
};
/// What implementations confuse in a norm that is there: in one of several, which has a formula
/// that the others have, or in all of them (`of_all`), whose formula may be wrong.
std::vector<OtherNorm> other_norms(const Norm& norm, bool of_all);
/// The norm with another ε.
OtherNorm other_epsilon(const Norm& norm, double eps);
/// "{}" replaced.
std::string with_name(std::string text, std::string_view name);

/// A norm of rows (B, T, d), of the layer's precision.
Tensor normed(const Norm& norm, const Tensor& rows);

} // namespace mha
