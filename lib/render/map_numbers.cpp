#include <mha/render/map_numbers.hpp>

#include <mha/render/map_ticks.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace mha::render {

namespace {

template <class Visit> void each_number(const MapPicture& picture, const Visit& visit) {
  for (const MapPanel& panel : picture.panels)
    for (std::size_t i = 0; i < panel.map.values.size(); ++i)
      if (panel.map.masked[i] == 0) visit(panel.map.values[i]);
}

} // namespace

CellNumbers::CellNumbers(const MapPicture& picture) {
  double largest = 0;
  each_number(picture, [&](double value) {
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  });
  const int digits = largest > 0 ? static_cast<int>(std::floor(std::log10(largest))) : 0;
  scientific_ = digits < -3 || digits > 5;
  // 0.67 and 1.00 have two, 0.067 has three: a weight of 0.67 is told well enough.
  decimals_ = std::clamp(digits < -1 ? 1 - digits : 2 - std::max(digits, 0), 0, 6);
  double widest = 0;
  each_number(picture,
              [&](double value) { widest = std::max(widest, text_width(text(value), tick_size)); });
  side_ = std::max<std::size_t>(whole(widest) + 6, 18);
}

std::string CellNumbers::text(double value) const {
  if (std::isnan(value)) return "NaN";
  if (!std::isfinite(value)) return value > 0 ? "∞" : "−∞";
  const std::string number = scientific_ ? fmt::format("{:.1e}", std::abs(value))
                                         : fmt::format("{:.{}f}", std::abs(value), decimals_);
  const bool negative = value < 0 && number.find_first_of("123456789") != std::string::npos;
  return negative ? "−" + number : number;
}

Rgb ink_on(Rgb ground) {
  const auto linear = [](std::uint8_t channel) { return std::pow(channel / 255.0, 2.2); };
  const double light =
      0.2126 * linear(ground.red) + 0.7152 * linear(ground.green) + 0.0722 * linear(ground.blue);
  return light > 0.18 ? Rgb{0, 0, 0} : Rgb{255, 255, 255};
}

} // namespace mha::render
