#pragma once
// Rounding errors of single steps: a stored number, a sum, a product of matrices.

#include <mha/layer/block.hpp>
#include <mha/layer/stage.hpp>
#include <mha/tensor/tensor.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

namespace mha {

/// The spacing of a floating type's numbers: `half` is half a unit in the last place of numbers
/// near
/// 1. Below `smallest`, a power of two, the spacing no longer shrinks.
struct Spacing {
  double half = 0;
  double smallest = 0x1p-1022;

  /// The largest error of storing a number.
  double most(double number) const {
    const auto power = std::bit_cast<std::uint64_t>(number) & 0x7ff0000000000000U; // at or below
    return number == 0 ? 0 : half * std::max(std::bit_cast<double>(power), smallest);
  }
  /// The mean square error of storing a number, uniform in the unit around it.
  double of(double number) const {
    const double error = most(number);
    return error * error / 3;
  }
  /// The same in the worst case, for a number that is only known up to a power of two.
  double at_worst(double number) const {
    const double error = number == 0 ? 0 : half * std::max(std::fabs(number), smallest);
    return error * error / 3;
  }
  /// The same, but 0 for a number that the type holds.
  double unless_held(double number) const;
};
Spacing spacing_of(DType dtype);

/// The inverse of cap · tanh(x / cap); the number itself if `cap` is 0. Near the cap it is inexact.
double before_cap(double capped, double cap);

/// The mean square error of a sum of n terms against the same sum in another order. Partial sums of
/// random terms grow with the root of their number, those of terms of one sign with their number.
/// `squares` is Σ (a b)², `sum` the result.
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

/// a b for variances: in float32, of numbers that are not negative.
Squares times(const Squares& a, const Squares& b, std::size_t threads);
/// The variance of x W: `a` are the squares of x, `variance` its variances, `squares` the squares
/// of W, `own` the variances of W (null: 0). Without the final rounding of the sum.
Squares variance_of_product(const Squares& a, const Squares& variance, const Squares& squares,
                            const Squares* own, const Spacing& summed, std::size_t threads);

/// Whether given numbers of a stage are exponentials, or shares of their sum. Weights of both signs
/// are not: they are scores.
bool are_powers(Stage stage, const Tensor& given);
/// The variance of a row of n given numbers with a relative error `off`: relative to each number
/// for powers (`each`), else to the number and to its row.
void variance_of_given(const Spacing& kept, double off, bool each, const double* y, std::size_t n,
                       double* variance);

/// Replaces the variances of a row of n numbers by those of its norm, with the norm's own
/// roundings. `gain`: the factor of each column.
void through_norm(InputNorm kind, double eps, const double* x, const double* gain,
                  const Spacing& kept, const Spacing& summed, double* variance, std::size_t n);
/// The factors of the columns of a normalised row.
std::vector<double> gains_of(const Tensor& weight, bool one_plus, std::size_t n);

} // namespace mha
