#include <mha/layer/layer.hpp>

#include <mha/layer/graph.hpp>
#include <mha/maths/functions.hpp>

#include <algorithm>
#include <cmath>

namespace mha {

double Layer::scale() const {
  switch (settings.scale) {
  case ScaleKind::d_k:
    return 1 / std::sqrt(static_cast<double>(dims.d_k));
  case ScaleKind::d_model:
    return 1 / std::sqrt(static_cast<double>(dims.d_model));
  case ScaleKind::none:
    return 1;
  case ScaleKind::number:
    return settings.scale_value;
  }
  return 1;
}

std::int64_t Layer::first_position() const {
  return settings.rope_offset.value_or(static_cast<std::int64_t>(dims.past));
}

std::ptrdiff_t Layer::causal_offset(std::size_t batch) const {
  const CausalAlign align = settings.causal_align;
  if (align == CausalAlign::top_left) return 0;
  // The first query and the first current key are the same token. Where T = S this is bottom_right;
  // where not, it is what ONNX does with past_key.
  if (align == CausalAlign::automatic && kv_lengths.empty())
    return static_cast<std::ptrdiff_t>(dims.past);
  const std::size_t keys = kv_lengths.empty() ? dims.past + dims.S : kv_lengths[batch];
  return static_cast<std::ptrdiff_t>(keys) - static_cast<std::ptrdiff_t>(dims.T);
}

std::ptrdiff_t Layer::query_position(std::size_t batch, std::size_t t) const {
  return static_cast<std::ptrdiff_t>(t) + causal_offset(batch);
}

double Layer::temperature_of(std::size_t t) const {
  const Settings& s = settings;
  if (s.temperature == 0) return 1;
  const double position = positions.empty()
                              ? static_cast<double>(first_position()) + static_cast<double>(t)
                              : positions.as<double>()[t];
  const double steps = std::floor((position + static_cast<double>(s.temperature_offset)) /
                                  s.temperature_length);
  return 1 + s.temperature * maths::log1p(std::max(0.0, steps));
}

Shape Layer::shape_of(Stage stage) const {
  const StageInfo& info = info_of(stage);
  Shape shape;
  if (dims.batched) shape.push_back(dims.B);
  for (Dim letter : info.letters) shape.push_back(dims.size_of(letter));
  if (settings.columns && info.kind != Kind::row) std::iter_swap(shape.end() - 1, shape.end() - 2);
  return shape;
}

Stage last_of_heads(const Layer& layer) {
  return has_step(layer, Stage::gated)       ? Stage::gated
         : has_step(layer, Stage::head_norm) ? Stage::head_norm
                                             : Stage::head_out;
}

bool norms_heads_together(const Layer& layer) {
  const Tensor& weight = layer.head_norm_weight;
  return !weight.empty() && weight.rank() == 1 && weight.count() != layer.dims.d_v;
}

bool norms_after_rotation(const Layer& layer) {
  return layer.settings.norm_after_rotation && layer.settings.rope != Rope::none;
}

std::size_t experts_side_by_side(const Layer& layer, Stage stage) {
  static const StageSet of_experts{Stage::mlp_pre, Stage::mlp_up, Stage::mlp_act,
                                   Stage::expert_out};
  return of_experts.contains(stage) ? layer.dims.n : 0;
}

} // namespace mha
