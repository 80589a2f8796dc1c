#pragma once
// Numbers rounded for readers, with aligned decimal points in each column.

#include <string>
#include <vector>

namespace mha::render {

/// The format of the numbers of one column: fixed decimals, or an exponent where they would not
/// fit.
class Rounding {
public:
  /// `digits` significant ones of the largest number; numbers below 1 get digits − 1 decimals.
  explicit Rounding(const std::vector<double>& numbers, std::size_t digits = 4);
  /// "-1.204", "1.20e-09", "inf", "-inf", "nan"; never "-0.000".
  std::string text(double number) const;

private:
  int decimals_ = 3;
  bool exponent_ = false;
};

/// A single number by itself.
std::string rounded_alone(double number, std::size_t digits = 4);

/// A bar of `width` columns for 1, in eighths of a column or whole ones: "███▌"; "" for numbers
/// that are not positive.
std::string bar(double part, std::size_t width, bool eighths = true);

/// "0–3, 7" for sorted indices; "" where that takes more than `runs` runs.
std::string ranges(const std::vector<std::size_t>& indices, std::size_t runs = 3);

} // namespace mha::render
