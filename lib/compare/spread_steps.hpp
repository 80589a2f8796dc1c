#pragma once
// The roundings of single steps: of a number that is kept, of a sum, of a product of matrices.

#include <mha/layer/block.hpp>
#include <mha/layer/stage.hpp>
#include <mha/tensor/tensor.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

namespace mha {

/// How far a floating type's numbers are apart: `half` a unit in the last place of those near 1,
/// and no finer than at `smallest`, a power of two.
struct Spacing {
  double half = 0;
  double smallest = 0x1p-1022;

  /// The most that storing moves a number.
  double most(double number) const {
    const auto power = std::bit_cast<std::uint64_t>(number) & 0x7ff0000000000000U; // at or below
    return number == 0 ? 0 : half * std::max(std::bit_cast<double>(power), smallest);
  }
  /// The mean square of what storing does to a number: its error is anywhere in the unit around it.
  double of(double number) const {
    const double error = most(number);
    return error * error / 3;
  }
  /// The same of a number whose place between two powers of two is not known: at worst.
  double at_worst(double number) const {
    const double error = number == 0 ? 0 : half * std::max(std::fabs(number), smallest);
    return error * error / 3;
  }
  /// The same of a number that may be of the type already: then nothing.
  double unless_held(double number) const;
};
Spacing spacing_of(DType dtype);

/// What cap · tanh(x / cap) is made of; 0: there is no cap. A number at the cap says nothing.
double before_cap(double capped, double cap);

/// The mean square that a sum of n terms is off by beside the same sum in another order, of a unit:
/// partial sums of terms at random grow with their number, those of terms of one sign with it
/// twice. `squares` is Σ (a b)², `sum` the result.
inline double of_sum(const Spacing& unit, std::size_t n, double squares, double sum) {
  return unit.half * unit.half * static_cast<double>(n) * (squares + sum * sum) / 3;
}

/// rows × columns.
struct Squares {
  std::size_t rows = 0, cols = 0;
  std::vector<double> numbers;

  Squares(std::size_t r, std::size_t c) : rows(r), cols(c), numbers(r * c) {}
  double* row(std::size_t i) { return numbers.data() + i * cols; }
  const double* row(std::size_t i) const { return numbers.data() + i * cols; }
};

/// a b, for variances: in float32, of numbers that are none negative.
Squares times(const Squares& a, const Squares& b, std::size_t threads);
/// The variance of x W of one row of x each: `a` its squares, `variance` its variances; `squares`
/// of W, and W's own variance, empty: 0. Without what the sum itself is off by.
Squares variance_of_product(const Squares& a, const Squares& variance, const Squares& squares,
                            const Squares* own, const Spacing& summed, std::size_t threads);

/// Whether given numbers of a stage are powers, or shares of their sum. Weights of both signs are
/// not: scores are in their place.
bool are_powers(Stage stage, const Tensor& given);
/// The variance of a row of n given numbers that are off by so much relative to them: of powers
/// (`each`) each to itself, of others to itself and to its row.
void variance_of_given(const Spacing& kept, double off, bool each, const double* y, std::size_t n,
                       double* variance);

/// The variance of a norm of a row of n numbers, in place of the row's own: by what it is computed
/// from, and its own roundings. `gain`: what each column is multiplied by.
void through_norm(InputNorm kind, double eps, const double* x, const double* gain,
                  const Spacing& kept, const Spacing& summed, double* variance, std::size_t n);
/// What the columns of a normalised row are multiplied by.
std::vector<double> gains_of(const Tensor& weight, bool one_plus, std::size_t n);

} // namespace mha
