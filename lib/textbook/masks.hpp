#pragma once
// Masks, causal, windows and lengths: the keys that a query may attend to.

#include <mha/textbook/positions.hpp>

namespace mha::textbook {

/// B, H, T, S_all zeros.
inline Array empty_map(const Layer& l) {
  return xt::zeros<double>({l.dims.B, l.dims.H, l.dims.T, l.dims.S_all});
}

/// A mask or bias over all queries and keys; zero for keys that it does not have.
inline Array laid_out(const Layer& l, const Broadcast& from) {
  const Dims& d = l.dims;
  Shape shape{d.B, d.H, d.T, from.keys};
  for (std::size_t axis = 0; axis < shape.size(); ++axis)
    if (from.strides[axis] == 0) shape[axis] = 1;
  Array map = empty_map(l);
  xt::view(map, all(), all(), all(), xt::range(from.first_key, from.first_key + from.keys)) =
      shaped(array(from.tensor), shape);
  return map;
}

/// The biases that are given as tensors over queries and keys, and T5's.
inline Array explicit_bias(const Layer& l) {
  Array bias = empty_map(l);
  for (const Broadcast& one : l.bias) bias += laid_out(l, one);
  if (!l.relative_bias.empty())
    xt::view(bias, all(), all(), all(), xt::range(0, l.dims.past + l.dims.S)) += bucket_bias(l);
  return bias;
}

/// The keys that a query may not attend to.
inline Booleans hidden(const Layer& l) {
  const Settings& s = l.settings;
  const double positioned = real(l.dims.past + l.dims.S); // extra and zero keys have no position
  const Array key = numbers_from(0, l.dims.S_all), query = query_positions(l);
  Booleans hides = xt::zeros<bool>({l.dims.B, l.dims.H, l.dims.T, l.dims.S_all});
  if (s.causal) hides = hides || key > query;
  if (s.window_left >= 0) hides = hides || key < query - static_cast<double>(s.window_left);
  if (s.window_right >= 0) hides = hides || key > query + static_cast<double>(s.window_right);
  if (s.window_chunk > 0) {
    const double chunk = real(s.window_chunk);
    hides = hides || (query >= 0. && xt::not_equal(xt::floor(key / chunk), xt::floor(query / chunk)));
  }
  for (std::size_t b = 0; b < l.kv_lengths.size(); ++b)
    xt::view(hides, b) = xt::view(hides, b) || key >= real(l.kv_lengths[b]);
  hides = hides && key < positioned;
  for (const Broadcast& mask : l.blocked) hides = hides || xt::not_equal(laid_out(l, mask), 0.);
  return hides;
}

/// The float masks.
inline Array added_masks(const Layer& l) {
  Array sum = empty_map(l);
  for (const Broadcast& mask : l.added) sum += laid_out(l, mask);
  return sum;
}

/// Rows in which masks leave no key, B, H, T. If the computation starts after the mask, the given
/// stage decides, and any row may be such.
inline Booleans sees_nothing(const Layer& l) {
  for (const Stage stage : {Stage::masked, Stage::shifted, Stage::exp, Stage::row_sum})
    if (l.has_given(stage)) return xt::ones<bool>({l.dims.B, l.dims.H, l.dims.T});
  const Array mask = xt::where(hidden(l), -infinity, explicit_bias(l) + added_masks(l));
  return xt::equal(xt::sum(xt::cast<double>(xt::not_equal(mask, -infinity)), {3}), 0.);
}

} // namespace mha::textbook
