#pragma once
// Layers for the tests of <mha/mha.hpp>.

#include "support/places.hpp"
#include <mha/mha.hpp>

#include <catch2/catch.hpp>

#include <random>

namespace mha::test {

/// A tensor of numbers that are all different.
template <class T = float> Tensor numbers(const Shape& shape, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> between(-1, 1);
  std::vector<T> values(count_of(shape));
  for (T& value : values) value = static_cast<T>(between(random));
  return tensor(std::move(values), shape);
}

/// 5 tokens, 2 heads of 3, d_model 4; causal.
template <class T = float> Tensors small_tensors() {
  return {{"X", numbers<T>({5, 4}, 1)},
          {"W_q", numbers<T>({4, 6}, 2)},
          {"W_k", numbers<T>({4, 6}, 3)},
          {"W_v", numbers<T>({4, 6}, 4)},
          {"W_o", numbers<T>({6, 4}, 5)}};
}
template <class T = float> Layer small_layer() {
  return layer(small_tensors<T>(), {.num_heads = 2, .causal = true});
}
/// Large enough for several threads, and two blocks of queries.
inline Layer large_layer() {
  const std::size_t T = 300, d = 64;
  return layer({{"X", numbers({T, d}, 1)},
                {"W_q", numbers({d, d}, 2)},
                {"W_k", numbers({d, d}, 3)},
                {"W_v", numbers({d, d}, 4)},
                {"W_o", numbers({d, d}, 5)}},
               {.num_heads = 4});
}

inline std::string data(const std::string& name) {
  return source_folder() + "/data/" + name;
}

inline bool same_bits(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         std::equal(a.raw(), a.raw() + a.bytes(), b.raw());
}

/// The message of the Error that the work throws; "" if it throws none.
template <class Work> std::string error_of(const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

} // namespace mha::test
