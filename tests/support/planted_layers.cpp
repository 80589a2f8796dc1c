#include "support/planted.hpp"

#include <cmath>

namespace planted {

using reference::Array;

Array numbers(Random& random, reference::Shape shape, double low, double high) {
  Array array(std::move(shape));
  // A float's numbers, so that a layer in float32 is the same layer.
  for (double& value : array.values) value = static_cast<float>(random.uniform(low, high));
  return array;
}

namespace {

Array weight(Random& random, std::size_t in, std::size_t out) {
  const double size = 3 / std::sqrt(static_cast<double>(in));
  return numbers(random, {in, out}, -size, size);
}

void add_weights(reference::Layer& layer, Random& random, std::size_t d_in, std::size_t d_out) {
  const std::size_t d_model = layer.X.shape[2];
  layer.W_q = weight(random, d_model, layer.H * layer.d_k);
  layer.W_k = weight(random, d_in, layer.H_kv * layer.d_k);
  layer.W_v = weight(random, d_in, layer.H_kv * layer.d_v);
  layer.W_o = weight(random, layer.H * layer.d_v, d_out);
  layer.b_q = numbers(random, {layer.H * layer.d_k}, -1, 1);
  layer.b_k = numbers(random, {layer.H_kv * layer.d_k}, -1, 1);
  layer.b_v = numbers(random, {layer.H_kv * layer.d_v}, -1, 1);
  layer.b_o = numbers(random, {d_out}, -1, 1);
  layer.scale = 1 / std::sqrt(static_cast<double>(layer.d_k));
}

Base plain(Random& random, std::size_t more) {
  Base base{"plain", {}, {}};
  reference::Layer& layer = base.layer;
  layer.H = layer.H_kv = 4, layer.d_k = layer.d_v = 6;
  layer.X = numbers(random, {1, 7 + more, 24}, -1.7, 1.7);
  add_weights(layer, random, 24, 24);
  return base;
}

Base grouped(Random& random, std::size_t more) {
  Base base{"grouped", {}, {}};
  reference::Layer& layer = base.layer;
  layer.H = 6, layer.H_kv = 2, layer.d_k = layer.d_v = 4;
  layer.X = numbers(random, {2, 9 + more, 20}, -1.7, 1.7);
  add_weights(layer, random, 20, 20);
  layer.rope = reference::Rope::half;
  layer.q_norm_weight = numbers(random, {layer.d_k}, 0.4, 1.6);
  layer.k_norm_weight = numbers(random, {layer.d_k}, 0.4, 1.6);
  layer.causal = true;
  return base;
}

Base cross(Random& random, std::size_t more) {
  Base base{"cross", {}, {}};
  reference::Layer& layer = base.layer;
  layer.H = layer.H_kv = 3, layer.d_k = 8, layer.d_v = 4;
  layer.X = numbers(random, {2, 7 + more, 12}, -1.7, 1.7);
  layer.X_k = layer.X_v = numbers(random, {2, 10 + more, 12}, -1.7, 1.7);
  add_weights(layer, random, 12, 12);
  layer.mask = numbers(random, {1, 1, 7 + more, 10 + more}, -2, 2);
  layer.blocked = Array({2, 1, 7 + more, 10 + more});
  for (double& value : layer.blocked.values) value = random.chance(0.25) ? 1 : 0;
  for (std::size_t b = 0; b < 2; ++b)
    for (std::size_t t = 0; t < 7 + more; ++t) layer.blocked(b, std::size_t{0}, t, t) = 0;
  base.form.one_source = true;
  return base;
}

} // namespace

std::vector<Base> bases(std::uint64_t seed, bool single, std::size_t more) {
  Random random(seed);
  std::vector<Base> list{plain(random, more), grouped(random, more), cross(random, more)};
  for (Base& base : list) base.form.batched = true, base.form.single = single;
  return list;
}

} // namespace planted
