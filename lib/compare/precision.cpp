#include <mha/compare/precision.hpp>

#include <mha/tensor/precision.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace mha {

namespace {

/// Fewer numbers do not show a type.
constexpr std::size_t enough_numbers = 16;
/// At least one number in this many has its last bit set; in computed numbers every other one has.
constexpr std::size_t last_bits = 8;

/// The bits after the leading one, and the exponent of the least normal number.
struct Format {
  int bits;
  int least;
};

/// Counts numbers of one format.
struct Census {
  Format format;
  double largest;
  bool holds = true; ///< every number so far is of the format
  std::size_t last_bit_set = 0;

  void add(double value) {
    if (!holds) return;
    const double magnitude = std::fabs(value);
    const int exponent = std::max(std::ilogb(magnitude), format.least);
    const double units = std::ldexp(magnitude, format.bits - exponent);
    holds = magnitude <= largest && units == std::floor(units);
    if (holds && (static_cast<std::uint64_t>(units) & 1) != 0) ++last_bit_set;
  }
};

} // namespace

DType precision_of(const Tensor& tensor, DType stored) {
  if (stored != DType::f32 && stored != DType::f64) return stored;
  Census bf16{{7, -126}, 3.4e38}, f16{{10, -14}, 65504.0}, f32{{23, -126}, 3.5e38};
  std::size_t count = 0;
  const auto count_numbers = [&](auto values) {
    for (const auto number : values) {
      const double value = static_cast<double>(number);
      // Masks add −1e9, finfo.min or 0: constants that need not be of the type.
      if (!std::isfinite(value) || value == 0 || std::fabs(value) >= 1e4) continue;
      ++count;
      bf16.add(value), f16.add(value);
      if (stored == DType::f64) f32.add(value); // else they are float32's already
      if (!bf16.holds && !f16.holds && (!f32.holds || stored == DType::f32)) return;
    }
  };
  if (tensor.dtype() == DType::f64)
    count_numbers(tensor.as<double>());
  else if (tensor.dtype() == DType::f32)
    count_numbers(tensor.as<float>());
  if (count < enough_numbers) return stored;
  const auto is = [&](const Census& census) {
    return census.holds && census.last_bit_set * last_bits >= count;
  };
  if (is(bf16)) return DType::bf16;
  if (is(f16)) return DType::f16;
  return is(f32) ? DType::f32 : stored;
}

bool is_short(DType dtype) {
  return dtype == DType::f16 || dtype == DType::bf16;
}

namespace {

constexpr int most_decimals = 5; ///< programs print more
constexpr std::size_t enough_typed = 8, enough_with_all = 2, with_all_in = 8;
constexpr double largest = 1e6;

/// Whether a number has at most so many decimals; `all`: the last one is not 0.
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
        count >= enough_typed && with_all >= enough_with_all && with_all * with_all_in >= count;
    return typed ? decimals : 0;
  }
  return 0;
}

double resolution_of(int decimals) {
  return decimals == 0 ? 0 : 0.5 * std::pow(10.0, -decimals);
}

} // namespace mha
