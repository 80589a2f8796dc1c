#include <mha/load/assemble_steps.hpp>

#include <mha/load/buckets.hpp>
#include <mha/load/narrowing.hpp>

#include <algorithm>

namespace mha {

namespace {

/// Takes one position a token, or three for mrope: (T), (1, T), (3, T), (3, 1, T).
void take_rotary_positions(const NamedTensor& part, Layer& layer) {
  const Dims& d = layer.dims;
  const Shape& shape = part.tensor.shape();
  const bool three = shape.size() > 1 && shape[0] == 3 && part.tensor.count() == 3 * d.T;
  if ((part.tensor.count() != d.T && !three) || d.S != d.T)
    fail("{} is {}, but the layer has {} and {}: one position a token expected, or three rows of "
         "them with mrope_section, for self-attention",
         part.source, to_string(shape), counted(d.T, "queries"), counted(d.S, "keys"));
  const auto& [t, h, w] = layer.settings.mrope_section;
  if (three && d.T != 1 && t + h + w == 0)
    fail("{} is {}: three rows of positions, but not which pairs turn by which; give "
         "<mrope_section> T,H,W (16,24,24 in Qwen2-VL), or one row",
         part.source, to_string(shape));
  layer.positions = convert(part.tensor, DType::f64).reshaped(three ? Shape{3, d.T} : Shape{d.T});
}

/// Takes T5's bias for every bucket of distances.
void take_relative_bias(const NamedTensor& part, Layer& layer, std::vector<Note>& notes) {
  const Settings& s = layer.settings;
  const Shape shape = part.tensor.shape();
  if (shape.size() != 2 || shape[1] != layer.dims.H)
    fail("{} is {}: expected (buckets, H) with {}", part.source, to_string(shape),
         counted(layer.dims.H, "heads"));
  const std::size_t buckets = s.relative_bidirectional ? shape[0] / 2 : shape[0];
  if (buckets < 2 || s.relative_max_distance <= buckets / 2)
    fail("{} is {}: {}{} do not fit relative_max_distance {}", part.source, to_string(shape),
         counted(buckets, "buckets"), s.relative_bidirectional ? " a direction" : "",
         s.relative_max_distance);
  layer.relative_bias = narrowed(part.tensor, layer.dtype, part.source, false, notes);
  const std::size_t farthest = std::min(s.relative_max_distance, layer.dims.T + layer.dims.S_all);
  for (std::size_t distance = 0; distance <= farthest; ++distance)
    layer.relative_buckets.push_back(relative_bucket(distance, buckets, s.relative_max_distance));
}

/// Takes a vector for every distance from −(M − 1) to M − 1.
void take_relative_key(const NamedTensor& part, Layer& layer, std::vector<Note>& notes) {
  const Dims& d = layer.dims;
  const Shape& shape = part.tensor.shape();
  if (shape.size() != 2 || shape[1] != d.d_k || shape[0] % 2 == 0)
    fail("{} is {}: expected (2M − 1, d_k), a vector of {} for every distance from −(M − 1) to "
         "M − 1",
         part.source, to_string(shape), counted(d.d_k, "numbers"));
  const std::size_t longest = shape[0] / 2 + 1, tokens = std::max(d.T, d.past + d.S);
  if (tokens > longest)
    fail("{} is {}: it knows distances of {}, but the layer has {}", part.source, to_string(shape),
         counted(longest, "tokens"), tokens);
  layer.relative_key = narrowed(part.tensor, layer.dtype, part.source, false, notes);
}

} // namespace

void take_positions(NamedTensors& parts, Layer& layer, std::vector<Note>& notes) {
  const auto take = [&](const char* name, const auto& into) {
    const auto part = parts.find(name);
    if (part == parts.end()) return;
    into(part->second);
    parts.erase(part);
  };
  take("positions", [&](const NamedTensor& part) { take_rotary_positions(part, layer); });
  for (const auto& [name, factor] : {std::pair("rope_short_factor", &layer.rope_short_factor),
                                     {"rope_long_factor", &layer.rope_long_factor}})
    take(name, [to = factor](const NamedTensor& part) { *to = convert(part.tensor, DType::f64); });
  take("relative_bias", [&](const NamedTensor& part) { take_relative_bias(part, layer, notes); });
  take("relative_key", [&](const NamedTensor& part) { take_relative_key(part, layer, notes); });
}

} // namespace mha
