#pragma once
// ONNX's Attention operator, opset 25, straight from its specification, in double.

#include "support/reference.hpp"

#include <array>

namespace onnx {

using reference::Array;

struct Inputs {
  Array Q, K, V;             ///< (B, heads, L, d) or (B, L, heads·d)
  Array attn_mask;           ///< rank 1 to 4, broadcast to (B, H, L, keys); keys may be fewer
  bool mask_is_bool = false; ///< not 0 = may attend; else added
  Array past_key, past_value;
  std::vector<std::size_t> nonpad_kv_seqlen;
};

struct Attributes {
  bool is_causal = false;
  std::size_t q_num_heads = 0, kv_num_heads = 0; ///< for inputs of rank 3
  int left_window_size = -1, right_window_size = -1;
  double scale = 0; ///< 0: 1 / √head_size
  double softcap = 0;
};

struct Outputs {
  Array Y, present_key, present_value;
  /// qk_matmul_output, by qk_matmul_output_mode: scaled, after softcap, plus mask, softmax.
  std::array<Array, 4> qk_matmul_output;
};

Outputs attention(const Inputs& inputs, const Attributes& attributes);

} // namespace onnx
