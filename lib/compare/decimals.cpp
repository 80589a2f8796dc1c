#include <mha/compare/decimals.hpp>

#include <mha/tensor/precision.hpp>

#include <cmath>

namespace mha {

namespace {

constexpr int most_decimals = 5; ///< more are what a program prints
constexpr std::size_t enough_numbers = 8, enough_with_all = 2, with_all_in = 8;
constexpr double largest = 1e6;

/// Whether a number has no more than so many decimals; `all`: its last one is not 0.
bool has_decimals(double number, int decimals, bool& all) {
  const double units = std::fabs(number) * std::pow(10.0, decimals), whole = std::round(units);
  all = std::fmod(whole, 10.0) != 0;
  return std::fabs(units - whole) <= 1e-9 * std::fmax(units, 1.0);
}

} // namespace

int typed_decimals(const Tensor& numbers) {
  for (int decimals = 1; decimals <= most_decimals; ++decimals) {
    std::size_t count = 0, with_all = 0;
    bool fits = true;
    for (std::size_t i = 0; i < numbers.count() && fits; ++i) {
      const double number = value_at(numbers, i);
      if (!std::isfinite(number) || std::fabs(number) > largest) continue; // a mask's
      bool all = false;
      fits = has_decimals(number, decimals, all);
      ++count, with_all += all ? 1 : 0;
    }
    if (!fits) continue;
    const bool typed =
        count >= enough_numbers && with_all >= enough_with_all && with_all * with_all_in >= count;
    return typed ? decimals : 0;
  }
  return 0;
}

double resolution_of(int decimals) {
  return decimals == 0 ? 0 : 0.5 * std::pow(10.0, -decimals);
}

} // namespace mha
