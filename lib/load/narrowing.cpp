#include <mha/load/narrowing.hpp>

#include <mha/tensor/parts.hpp>

#include <array>
#include <cmath>
#include <limits>

namespace mha {

namespace {

/// What numbers lose as float32.
struct Lost {
  std::size_t infinite = 0, positive = 0, zero = 0;
  std::size_t first = 0; ///< index of the first infinite one, else of the first 0
};

template <class T> Lost lost_of(std::span<const T> numbers) {
  Lost lost;
  std::size_t first_zero = 0;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const auto narrow = static_cast<float>(numbers[i]);
    if (std::isinf(narrow) && std::isfinite(static_cast<double>(numbers[i]))) {
      if (lost.infinite++ == 0) lost.first = i;
      lost.positive += narrow > 0;
    } else if (narrow == 0 && numbers[i] != 0) {
      if (lost.zero++ == 0) first_zero = i;
    }
  }
  if (lost.infinite == 0) lost.first = first_zero;
  return lost;
}

} // namespace

Tensor narrowed(const Tensor& tensor, DType dtype, const std::string& source, bool is_mask,
                std::vector<Note>& notes) {
  if (dtype != DType::f32 || tensor.dtype() != DType::f64)
    return converted_when_read(tensor, dtype);
  const Lost lost = lost_of(tensor.as<double>());
  if (lost.infinite + lost.zero > 0) {
    std::string what;
    if (lost.infinite > 0)
      what = fmt::format("{} infinite in float32, which ends at 3.4e38",
                         lost.infinite == 1 ? "1 number becomes"
                                            : fmt::format("{} numbers become", lost.infinite));
    if (lost.zero > 0)
      what += fmt::format("{}{} 0{}", what.empty() ? "" : ", ",
                          lost.zero == 1 ? "1 number becomes"
                                         : fmt::format("{} numbers become", lost.zero),
                          lost.infinite == 0 ? " in float32, which ends at 1.4e-45" : "");
    // Masks often have the lowest number of float64, which means the same as −inf.
    const bool harmless = is_mask ? lost.positive == 0 : lost.infinite == 0;
    notes.emplace_back(message("{}: {} (of {}, the first at {}: {:g}){}", source, what,
                               tensor.count(), place_text(tensor.shape(), lost.first),
                               value_at(tensor, lost.first),
                               is_mask && harmless ? "" : message("; <dtype> f64 keeps them")),
                       harmless ? Severity::note : Severity::warning);
  }
  return convert(tensor, dtype);
}

void require_settings_within(const Settings& settings, DType dtype) {
  if (dtype != DType::f32) return;
  const auto check = [&](const char* name, double value, bool zero_is_another) {
    const auto narrow = static_cast<float>(value);
    const bool infinite = std::isinf(narrow), lost = zero_is_another && narrow == 0 && value != 0;
    if (!infinite && !lost) return;
    const auto from = settings.origins.find(name);
    const std::string origin = from == settings.origins.end() ? "default" : from->second;
    fail("{} is {:g}: {} in float32, which {}; give <dtype> f64, or a number within it",
         is_given(origin) ? origin : fmt::format("{}: {}", origin, name), value,
         infinite ? "infinite" : "0", infinite ? "ends at 3.4e38" : "has nothing below 1.4e-45");
  };
  if (settings.scale == ScaleKind::number) check("scale", settings.scale_value, true);
  check("softcap", settings.softcap, true);
  check("input_norm_eps", settings.input_norm_eps, false);
  check("qk_norm_eps", settings.qk_norm_eps, false);
}

} // namespace mha
