#pragma once
// Masks and biases written out by edits, with a number for each query and key.

#include <mha/load/broadcast.hpp>
#include <mha/tensor/precision.hpp>

#include <cstring>
#include <string>
#include <utility>

namespace mha {

/// Hides key j from query t of item b if hides(b, t, j), for all S_all keys including extra ones.
/// The layer's other masks stay. With one item, the mask applies to all.
template <class Hides>
void write_mask(Layer& layer, std::string origin, std::size_t items, const Hides& hides) {
  const Dims& d = layer.dims;
  Tensor mask(DType::boolean, {items, 1, d.T, d.S_all});
  std::uint8_t* to = mask.as_mutable<std::uint8_t>().data();
  for (std::size_t b = 0; b < items; ++b)
    for (std::size_t t = 0; t < d.T; ++t)
      for (std::size_t j = 0; j < d.S_all; ++j) *to++ = hides(b, t, j) ? 1 : 0;
  layer.blocked.push_back(broadcast_of(std::move(mask), std::move(origin)));
}

/// Adds bias(h, distance) to each score of head h, where distance = key's position − query's. Extra
/// keys get none.
template <class Bias> void write_bias(Layer& layer, std::string origin, const Bias& bias) {
  const Dims& d = layer.dims;
  Tensor all(layer.dtype, {d.B, d.H, d.T, d.S_all});
  by_precision(layer.dtype, [&]<class T>(T) {
    T* to = all.as_mutable<T>().data();
    for (std::size_t b = 0; b < d.B; ++b)
      for (std::size_t h = 0; h < d.H; ++h)
        for (std::size_t t = 0; t < d.T; ++t, to += d.S_all) {
          const std::ptrdiff_t query = layer.query_position(b, t);
          for (std::size_t j = 0; j < d.past + d.S; ++j)
            to[j] = static_cast<T>(bias(h, static_cast<std::ptrdiff_t>(j) - query));
        }
  });
  layer.bias.push_back(broadcast_of(std::move(all), std::move(origin)));
}

/// Writes a mask or bias out for each head of each item: source(b, h) is the item and the head from
/// which it is taken.
template <class Source>
void write_heads(const Layer& layer, Broadcast& mask, const Source& source) {
  const Dims& d = layer.dims;
  const Broadcast from = mask;
  const std::size_t n = from.keys, bytes = size_of(from.tensor.dtype());
  mask.tensor = Tensor::uninitialised(from.tensor.dtype(), {d.B, d.H, d.T, n});
  mask.strides = broadcast_strides(mask.tensor.shape());
  std::byte* to = mask.tensor.raw_mutable();
  for (std::size_t b = 0; b < d.B; ++b)
    for (std::size_t h = 0; h < d.H; ++h) {
      const auto [item, head] = source(b, h);
      const std::size_t first = item * from.strides[0] + head * from.strides[1];
      for (std::size_t t = 0; t < d.T; ++t)
        for (std::size_t j = 0; j < n; ++j, to += bytes)
          std::memcpy(
              to, from.tensor.raw() + (first + t * from.strides[2] + j * from.strides[3]) * bytes,
              bytes);
    }
}

} // namespace mha
