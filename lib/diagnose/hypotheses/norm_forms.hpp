#pragma once
// Forms of a norm that implementations confuse: other divisors, weights and formulas.

#include <mha/layer/block.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace mha {

/// The divisor of a norm.
enum class NormSize : std::uint8_t {
  root,        ///< √(variance + ε)
  eps_outside, ///< √variance + ε
  larger,      ///< the larger of √variance and ε
  length,      ///< √(Σ x² + ε)
  eps_in_sum,  ///< √((Σ x² + ε) / n)
  variance,    ///< variance + ε, without the root
};

/// The parts of a norm in which implementations differ.
struct NormForm {
  bool centres = true; ///< whether a LayerNorm subtracts the mean
  bool adds_bias = true;
  bool bias_first = false; ///< (x̂ + b) w
  bool unbiased = false;   ///< variance over n − 1
  bool about_zero = false; ///< the mean of squares in place of the variance, though x is centred
  bool of_text = false;    ///< one mean and variance over all rows of a text
  NormSize size = NormSize::root;
  double weight_offset = 0; ///< added to the weight
};
/// Normalises rows (…, d) in this form, computed in double.
Tensor normed(const Norm& norm, const Tensor& rows, const NormForm& form);
/// Normalises rows (B, T, d) as the layer does.
Tensor normed(const Norm& norm, const Tensor& rows);

/// Another form of a norm.
struct OtherNorm {
  std::string id;  ///< the last part of the change's id: "eps", "one_plus"
  std::string did; ///< continues "the reference …", with {} for the norm: "leaves out {}'s weight"
  std::string cure;               ///< the cure, also with {}
  std::function<Norm(Norm)> form; ///< empty: no Norm represents it, and `rows` computes it
  std::function<Tensor(const Norm&, const Tensor& rows)> rows;
};
/// The forms that implementations confuse with a norm. For one of several norms of one class these
/// are other settings; for all of them (`of_all`) also other formulas.
std::vector<OtherNorm> other_norms(const Norm& norm, bool of_all);
/// The norm with another ε.
OtherNorm other_epsilon(const Norm& norm, double eps);
/// The text with each "{}" replaced by the name.
std::string with_name(std::string text, std::string_view name);

} // namespace mha
