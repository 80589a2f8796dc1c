#pragma once
// Block-quantised numbers: small integers with scales that a block shares.

#include <mha/tensor/tensor.hpp>

#include <span>
#include <string_view>

namespace mha {

/// A block type. A block never crosses the end of a row (the last axis).
struct BlockType {
  std::string_view name;    ///< "Q4_K"
  std::size_t elements = 0; ///< of a block
  std::size_t bytes = 0;    ///< of a block
  /// Writes the block's `elements` numbers in float32, as ggml computes them.
  void (*decode)(const std::byte* block, float* values) = nullptr;
  /// Writes, for each number, the distance to the next number that the block can represent (the
  /// larger of the two), which is twice the largest rounding error.
  void (*steps)(const std::byte* block, float* values) = nullptr;
};

/// All supported block types.
MHA_API std::span<const BlockType> block_types();
/// The type of that name, or nullptr.
MHA_API const BlockType* find_block_type(std::string_view name);

/// The numbers of an array of `shape`, or their steps, from consecutive blocks at `data`. The last
/// axis must be a whole number of blocks.
MHA_API Tensor decoded(const BlockType& type, const std::byte* data, const Shape& shape);
MHA_API Tensor steps_of(const BlockType& type, const std::byte* data, const Shape& shape);

/// The numbers of MXFP4 as OpenAI stores it, apart from their scales: `blocks` (rows, n, 16), two
/// numbers a byte, the low half first, and `scales` (rows, n), powers of two plus 127, both uint8.
/// (rows, 32 n) in bfloat16, which holds them exactly.
MHA_API Tensor mxfp4_with_scales(const Tensor& blocks, const Tensor& scales);

} // namespace mha
