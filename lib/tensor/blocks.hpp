#pragma once
// Numbers that files store in blocks: small integers, and scales that a block shares.

#include <mha/tensor/tensor.hpp>

#include <span>
#include <string_view>

namespace mha {

/// A type of elements that come in blocks. A block never crosses the end of a row (the last axis).
struct BlockType {
  std::string_view name;    ///< "Q4_K"
  std::size_t elements = 0; ///< of a block
  std::size_t bytes = 0;    ///< of a block
  /// The numbers of a block, in float32 as ggml computes them: `elements` of them.
  void (*decode)(const std::byte* block, float* values) = nullptr;
  /// At each number, how far the neighbouring ones lie that the block could have stored: twice what
  /// rounding can have cost. Of two distances, the larger.
  void (*steps)(const std::byte* block, float* values) = nullptr;
};

/// Every type of blocks that is read.
MHA_API std::span<const BlockType> block_types();
/// The type of that name, or nullptr.
MHA_API const BlockType* find_block_type(std::string_view name);

/// The numbers of `shape`, whose last axis is whole blocks that lie one after the other from `data`
/// on; or their steps.
MHA_API Tensor decoded(const BlockType& type, const std::byte* data, const Shape& shape);
MHA_API Tensor steps_of(const BlockType& type, const std::byte* data, const Shape& shape);

} // namespace mha
