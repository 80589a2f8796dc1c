// The factor between the dot products and the softmax.

#include <mha/diagnose/hypotheses/edit.hpp>
#include <mha/diagnose/hypotheses/fitted_changes.hpp>
#include <mha/diagnose/hypotheses/themes.hpp>

#include <cmath>

namespace mha {

Change scale_change(const Layer& layer, std::string id, double scale, std::string_view shown,
                    std::string_view expression) {
  return settings_change(std::move(id), StageSet{Stage::scaled},
                         fmt::format("multiplies the scores by {}", expression),
                         fmt::format("multiply q kᵀ by {:.6g} before the softmax, not by {:.6g}",
                                     layer.scale(), scale),
                         {{"scale", scale, shown}});
}

namespace {

std::vector<Change> scale_changes(const Subject& subject) {
  const Layer& layer = subject.layer;
  const double scale = layer.scale(), d_k = static_cast<double>(layer.dims.d_k),
               d_model = static_cast<double>(layer.dims.d_model);
  std::vector<Change> list;
  const auto add = [&](const char* id, double other, const std::string& shown,
                       const std::string& expression) {
    if (std::isfinite(other) && std::fabs(other - scale) > 1e-9 * std::fabs(scale))
      list.push_back(scale_change(layer, id, other, shown, expression));
  };
  add("scale.missing", 1, "1", "nothing: the scale is missing");
  if (!list.empty()) list.back().did = "does not scale the scores";
  add("scale.twice", scale * scale, fmt::format("{}", scale * scale),
      fmt::format("the scale twice: {:.6g}² = {:.6g}", scale, scale * scale));
  if (layer.dims.d_k > 0) add("scale.d_k", 1 / d_k, fmt::format("{}", 1 / d_k), "1/d_k");
  if (layer.dims.d_model > 0) add("scale.d_model", 1 / std::sqrt(d_model), "d_model", "1/√d_model");
  // The usual default, if the layer has another scale.
  if (layer.dims.d_k > 0) add("scale.constant", 1 / std::sqrt(d_k), "d_k", "1/√d_k");
  return list;
}

} // namespace

const Theme scale_theme{
    "scale", "scale.missing scale.twice scale.d_k scale.d_model scale.constant multiplied",
    scale_changes};

std::optional<NamedScale> named_scale(const Layer& layer, double scale, double near) {
  const auto real = [](std::size_t n) { return static_cast<double>(n); };
  const double d_k = real(layer.dims.d_k), d_model = real(layer.dims.d_model),
               H = real(layer.dims.H);
  const std::pair<double, const char*> known[]{
      {1 / std::sqrt(d_k), "1/√d_k"},
      {std::sqrt(d_k), "√d_k: multiplied instead of divided"},
      {d_k, "d_k"},
      {1 / std::pow(d_k, 0.25), "1/d_k^¼: q or k alone is scaled"},
      {layer.scale() * M_LOG2E, "the scale times log₂ e, which belongs to a softmax with 2^x"},
      {layer.scale() / M_LOG2E, "the scale times ln 2"},
      {1 / d_model, "1/d_model"},
      {1 / std::sqrt(2 * d_k), "1/√(2 d_k)"},
      {1 / std::sqrt(d_k / 2), "1/√(d_k/2)"},
      {1 / std::sqrt(d_model / H), "1/√(d_model/H)"},
      {1 / std::sqrt(H * d_k), "1/√(H · d_k)"},
      {1 / std::sqrt(real(layer.dims.d_v)), "1/√d_v"},
      {1 / std::sqrt(H), "1/√H"},
      {1 / H, "1/H"},
  };
  for (const auto& [value, name] : known)
    if (std::fabs(scale - value) <= near * std::fabs(value) && value != layer.scale())
      return NamedScale{value, name};
  // YaRN's attention factor, in q and in k.
  for (double factor : {2.0, 4.0, 8.0, 16.0, 32.0, 40.0, 64.0}) {
    const double squared = std::pow(0.1 * std::log(factor) + 1, 2);
    for (const double value : {layer.scale() * squared, layer.scale() / squared})
      if (std::fabs(scale - value) <= 1e-5 * value)
        return NamedScale{value,
                          fmt::format("the scale {} (0.1 ln {} + 1)², an attention factor of YaRN",
                                      value > layer.scale() ? "times" : "over", factor)};
  }
  constexpr double very_near = 1e-4; // there are many of these, so that chance matches are likely
  for (int layer_number = 2; layer_number <= 64; ++layer_number)
    if (const double value = layer.scale() / layer_number;
        std::fabs(scale - value) <= very_near * value)
      return NamedScale{
          value, fmt::format("the scale / {}, as with a scale by layer number", layer_number)};
  for (int n = 1; n <= 1024; ++n)
    if (const double value = 1 / std::sqrt(n); std::fabs(scale - value) <= very_near * value)
      return NamedScale{value, fmt::format("1/√{}", n)};
  return std::nullopt;
}

} // namespace mha
