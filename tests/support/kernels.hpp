#pragma once
// Attention as kernels compute it: right ports in other orders of sums and other types, and wrong
// ones whose mistake is small and in one place. Independent of the library.

#include <mha/compare/reference.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace kernels {

/// The order in which float32 sums are taken; `online`: in blocks of keys, rescaled as the maximum
/// grows, as FlashAttention does.
enum class Order : std::uint8_t { forward, reversed, pairwise, online };

/// What one kernel computes, and in what.
struct Kernel {
  std::size_t B = 1, T = 1, S = 1, H = 1, H_kv = 1, d_k = 1, d_v = 1;
  std::size_t d_model = 0; ///< of layers with projections; 0: q, k and v are given
  bool causal = false;
  std::int64_t window = -1; ///< keys before its own that a query sees; −1: all
  double softcap = 0;
  bool sinks = false, masked = false, padded = false;
  double size = 1;                      ///< of the queries: larger ones make sharper weights
  mha::DType stored = mha::DType::f32;  ///< of inputs and outputs
  mha::DType weights = mha::DType::f32; ///< that the product with v reads
  mha::DType scores = mha::DType::f32;  ///< as they are kept
  Order order = Order::forward;
  std::uint64_t seed = 1;

  std::string text() const;
};

/// A small mistake: a factor on what belongs to one head of one item, of some rows or some keys.
struct Mistake {
  double factor = 1;
  std::size_t item = 0, head = 0, first = 0, count = 0; ///< rows, or keys
  bool of_keys = false;
  std::string text() const;
};

/// A kernel's results beside the layer that it ports.
struct Port {
  mha::Layer layer;
  std::vector<mha::ReferenceStage> stages; ///< what it saved
};

/// A kernel by its number: sizes, masks, types and orders all differ.
Kernel kernel_of(std::uint64_t number, bool with_projections);
/// A mistake that this kernel may have, by number: a row, rows of a tile, a head, a tile of keys.
Mistake mistake_of(const Kernel& kernel, std::uint64_t number);
Port port_of(const Kernel& kernel, const std::optional<Mistake>& mistake = {});

} // namespace kernels
