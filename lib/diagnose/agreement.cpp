#include <mha/diagnose/agreement.hpp>

#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/thresholds.hpp>
#include <mha/tensor/not_saved.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace mha {

namespace {

using thresholds::huge, thresholds::mask_constant;

template <class T> double root_mean_square(std::span<const T> values) {
  double sum = 0, all = 0;
  std::size_t ordinary = 0, finite = 0;
  for (T value : values) {
    const double a = static_cast<double>(value);
    if (!std::isfinite(a)) continue;
    ++finite, all += a * a;
    if (std::fabs(a) < huge) ++ordinary, sum += a * a;
  }
  if (ordinary > 0) return std::sqrt(sum / static_cast<double>(ordinary));
  return finite > 0 ? std::sqrt(all / static_cast<double>(finite)) : 0;
}

bool both_hidden(double a, double b) {
  constexpr double minus_infinity = -std::numeric_limits<double>::infinity();
  return (a == minus_infinity && b <= mask_constant) || (b == minus_infinity && a <= mask_constant);
}

/// Whether a pair is skipped: the reference did not save its number, or both are hidden, NaN or the
/// same infinity.
bool not_compared(double a, double b) {
  return is_not_saved(b) || both_hidden(a, b) || (std::isnan(a) && std::isnan(b)) ||
         (std::isinf(a) && a == b);
}

/// Whether all numbers are finite and those of the reference of usual size, as in most stages. No
/// branch per number, so that the loop is vectorised.
template <class T> bool all_ordinary(std::span<const T> ours, std::span<const T> theirs) {
  int others = 0; // an integer, because compilers vectorise it
  for (std::size_t i = 0; i < ours.size(); ++i)
    others |= static_cast<int>(!(std::fabs(ours[i]) <= std::numeric_limits<T>::max())) |
              static_cast<int>(!(std::fabs(theirs[i]) < static_cast<T>(huge)));
  return others == 0;
}

template <class T> Agreement compare(std::span<const T> ours, std::span<const T> theirs,
                                     std::size_t width, double tolerance) {
  const double typical = root_mean_square(theirs);
  const double unit = typical > 0 ? typical : 1;
  double differences = 0, squares = 0, largest = -1;
  double of_worst_row = 0;
  Agreement result;
  result.agrees = true;
  const auto note = [&](std::size_t i, double difference) {
    if (!(difference > largest)) return;
    largest = difference;
    result.worst = i, result.ours = static_cast<double>(ours[i]),
    result.theirs = static_cast<double>(theirs[i]);
  };
  for (std::size_t row = 0; row < ours.size(); row += width) {
    const bool ordinary_row = all_ordinary(ours.subspan(row, width), theirs.subspan(row, width));
    double of_row = 0;
    for (std::size_t i = row; i < row + width; ++i) {
      const double a = static_cast<double>(ours[i]), b = static_cast<double>(theirs[i]);
      if (!ordinary_row && not_compared(a, b)) continue;
      if (!ordinary_row && (!std::isfinite(a) || !std::isfinite(b))) {
        result.agrees = false;
        note(i, std::numeric_limits<double>::infinity());
        differences += unit * unit, squares += unit * unit, of_row += unit * unit;
        continue;
      }
      const double difference = std::fabs(a - b);
      result.agrees &= difference <= tolerance * (std::fabs(b) + typical);
      note(i, difference);
      const bool ordinary = ordinary_row || std::fabs(b) < huge;
      const double counted = ordinary ? std::min(difference, huge * unit)
                                      : std::min(difference / std::fabs(b), 1.0) * unit;
      differences += counted * counted, of_row += counted * counted;
      squares += ordinary ? b * b : unit * unit;
    }
    of_worst_row = std::max(of_worst_row, of_row);
  }
  result.error = std::sqrt(differences / (squares > 0 ? squares : 1));
  result.error_elsewhere =
      std::sqrt(std::max(0.0, differences - of_worst_row) / (squares > 0 ? squares : 1));
  return result;
}

} // namespace

Agreement incomparable() {
  Agreement none;
  none.error = none.error_elsewhere = std::numeric_limits<double>::infinity();
  return none;
}

Agreement agreement_of(const Tensor& ours, const Tensor& theirs, double tolerance) {
  if (ours.shape() != theirs.shape() || ours.dtype() != theirs.dtype())
    return {false,
            std::numeric_limits<double>::infinity(),
            std::numeric_limits<double>::infinity(),
            0,
            0,
            0};
  const std::size_t width = std::max<std::size_t>(ours.rank() == 0 ? 1 : ours.shape().back(), 1);
  return by_precision(ours.dtype(), [&]<class T>(T) {
    return compare(ours.as<T>(), theirs.as<T>(), width, tolerance);
  });
}

double tolerance_of(DType dtype) {
  switch (dtype) {
  case DType::f64:
    return 1e-9;
  case DType::f16:
    return 1e-3;
  case DType::bf16:
    return 8e-3;
  default:
    return 5e-5;
  }
}

bool representable(const Tensor& tensor, DType dtype) {
  const Tensor rounded = rounded_to(tensor, dtype);
  return by_precision(tensor.dtype(), [&]<class T>(T) {
    return std::equal(tensor.as<T>().begin(), tensor.as<T>().end(), rounded.as<T>().begin(),
                      [](T a, T b) { return a == b || (std::isnan(a) && std::isnan(b)); });
  });
}

double projection(const Tensor& theirs, const Tensor& with, const Tensor& without) {
  double product = 0, square = 0;
  for (std::size_t i = 0; i < theirs.count(); ++i) {
    const double base = without.empty() ? 0 : value_at(without, i), a = value_at(theirs, i) - base,
                 b = value_at(with, i) - base;
    if (std::isfinite(a) && std::isfinite(b)) product += a * b, square += b * b;
  }
  return square > 0 ? product / square : 1;
}

} // namespace mha
