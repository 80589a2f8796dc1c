// Rotary embeddings as settings, and tensors of numbers that were computed one by one.

#include <mha/formats/onnx_layers.hpp>

#include <mha/files/text.hpp>
#include <mha/maths/functions.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace mha::io {

Entry onnx_entry(std::string name, const std::vector<double>& numbers, DType dtype) {
  Entry entry;
  entry.name = std::move(name);
  entry.dtype = dtype == DType::f64 ? DType::f64 : DType::f32;
  entry.shape = {numbers.size()};
  entry.read = [numbers, dtype = entry.dtype] {
    return convert(Tensor::of<double>({numbers.size()}, numbers), dtype);
  };
  return entry;
}

void add_onnx_rope(const OnnxRope& rope, bool wide, OnnxLayer& layer) {
  const auto set = [&](const char* name, std::string value) {
    layer.settings.emplace_back(name, std::move(value));
  };
  set("rope", rope.neighbours ? "interleaved" : "half");
  set("rope_dims", std::to_string(rope.dims));
  if (rope.first > 0) set("rope_first", std::to_string(rope.first));
  const std::vector<double>& turns = rope.frequencies;
  const auto dims = static_cast<double>(rope.dims);
  // Tables in float32 match their base up to float32 rounding; a float64 graph must match exactly.
  const double rounding = wide ? 1e-13 : 1e-5;
  const auto exact = [&](double base) {
    for (std::size_t j = 0; j < turns.size(); ++j) {
      const double expected = maths::pow(base, -2 * static_cast<double>(j) / dims);
      if (std::abs(turns[j] - expected) > rounding * expected) return false;
    }
    return true;
  };
  double base = 10000;
  if (turns.size() > 1) {
    const std::size_t last = turns.size() - 1;
    base = maths::pow(turns[last] / turns[0], -dims / (2 * static_cast<double>(last)));
    const double whole = std::round(base);
    if (whole > 1 && std::abs(base - whole) < 1e-3 * whole && exact(whole)) base = whole;
  }
  if (rope.amplitude != 1) set("rope_attention_factor", number_text(rope.amplitude));
  if (exact(base)) {
    set("rope_base", number_text(base));
    return;
  }
  // Linear scaling slows every pair by the same factor; other scalings become a factor for each
  // pair.
  const double slower = 1 / turns[0];
  bool linear = slower > 0 && std::isfinite(slower);
  for (std::size_t j = 0; j < turns.size() && linear; ++j) {
    const double expected = turns[0] * maths::pow(base, -2 * static_cast<double>(j) / dims);
    linear = std::abs(turns[j] - expected) <= rounding * expected;
  }
  if (linear) {
    set("rope_base", number_text(base));
    set("rope_scaling", "linear"), set("rope_factor", number_text(slower));
    return;
  }
  base = 10000;
  std::vector<double> factors;
  for (std::size_t j = 0; j < turns.size(); ++j)
    factors.push_back(maths::pow(base, -2 * static_cast<double>(j) / dims) / turns[j]);
  set("rope_base", number_text(base)), set("rope_scaling", "longrope");
  set("rope_original_length", "1000000000");
  if (rope.amplitude == 1) set("rope_attention_factor", "1");
  layer.tensors.push_back(onnx_entry("rope_short_factor", factors, DType::f64));
  layer.tensors.push_back(onnx_entry("rope_long_factor", factors, DType::f64));
}

} // namespace mha::io
