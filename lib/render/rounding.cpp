#include <mha/render/rounding.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace mha::render {

Rounding::Rounding(const std::vector<double>& numbers, std::size_t digits) {
  double largest = 0;
  for (double number : numbers)
    if (std::isfinite(number)) largest = std::max(largest, std::abs(number));
  const int places = std::max(1, static_cast<int>(std::min<std::size_t>(digits, 17)));
  exponent_ = largest >= 1e6 || (largest > 0 && largest < 1e-3);
  decimals_ = places - 1;
  if (!exponent_ && largest >= 10)
    decimals_ = std::max(0, decimals_ - static_cast<int>(std::floor(std::log10(largest))));
}

std::string Rounding::text(double number) const {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
  std::string text = exponent_ ? fmt::format("{:.{}e}", number, decimals_)
                               : fmt::format("{:.{}f}", number, decimals_);
  // A small negative number must not read as a negative zero.
  if (text[0] == '-' && text.find_first_of("123456789") == std::string::npos) text.erase(0, 1);
  return text;
}

std::string rounded_alone(double number, std::size_t digits) {
  return Rounding({number}, digits).text(number);
}

std::string bar(double part, std::size_t width, bool eighths) {
  static constexpr std::array<std::string_view, 8> ends{"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  if (!(part > 0)) return "";
  const double columns = std::min(part, 1.0) * static_cast<double>(width);
  const auto steps =
      static_cast<std::size_t>(eighths ? std::lround(columns * 8) : 8 * std::lround(columns));
  std::string text;
  for (std::size_t i = 0; i < steps / 8; ++i) text += "█";
  text += ends[steps % 8];
  return text;
}

std::string ranges(const std::vector<std::size_t>& indices, std::size_t runs) {
  std::string text;
  std::size_t count = 0;
  for (std::size_t i = 0; i < indices.size();) {
    std::size_t last = i;
    while (last + 1 < indices.size() && indices[last + 1] == indices[last] + 1) ++last;
    if (++count > runs) return "";
    text += text.empty() ? "" : ", ";
    text +=
        last == i ? fmt::format("{}", indices[i]) : fmt::format("{}–{}", indices[i], indices[last]);
    i = last + 1;
  }
  return text;
}

} // namespace mha::render
