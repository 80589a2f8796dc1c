#pragma once
// Routines of products.

#include <cstddef>
#include <optional>

namespace mha {

/// Who multiplies. Decided once per kind of product, from the whole layer's shape, never from a
/// tile's: they differ in their last bits.
enum class Routine {
  /// Register-tiled; every element one sequential sum over k, so it has the same bits however the
  /// product is cut into rows, columns or (accumulating) depths, b transposed or not, and on every
  /// processor with AVX2 and FMA, or more.
  fma,
  /// float32 only, on processors with AMX: 1.5 to 1.9 times as fast, and nearer to
  /// the exact sums (bf16x3.hpp). Its bits depend on no cut as long as the numbers split well.
  bf16x3,
};

/// The routine for a layer's products, each `rows` × `depth` by `depth` × `cols` at least.
/// Splitting is worth its while from some dozen rows on, where the right side `may_split`. float64
/// is always `fma`.
template <class T>
Routine routine_for(std::size_t rows, std::size_t cols, std::size_t depth, bool may_split = true);

/// Takes one routine for float32 products of every size, or again what routine_for chooses: for
/// tests, which reach every path with small layers. Not while a layer is computed.
void set_routine(std::optional<Routine> routine);

} // namespace mha
