#pragma once
// The forms that implementations give a norm: other sizes, weights and formulas.

#include <mha/layer/block.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace mha {

/// What a norm divides by.
enum class NormSize : std::uint8_t {
  root,        ///< √(variance + ε)
  eps_outside, ///< √variance + ε
  larger,      ///< the larger of √variance and ε
  length,      ///< √(Σ x² + ε)
  eps_in_sum,  ///< √((Σ x² + ε) / n)
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
/// A norm of rows (B, T, d), of the layer's precision.
Tensor normed(const Norm& norm, const Tensor& rows);

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

} // namespace mha
