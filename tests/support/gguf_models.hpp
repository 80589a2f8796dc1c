#pragma once
// A tiny model of every architecture of GGUF that is read, and its numbers in double precision as
// llama.cpp's graphs have them: from the file's own keys and rows, which the reference reads by
// itself.

#include "support/gguf_file.hpp"

#include <span>
#include <string_view>

namespace mha::test {

/// What an architecture computes. Words stand for what most others do not.
struct GgufTraits {
  std::string_view name;
  /// "halves", "neighbours"; "": none.
  std::string_view rope = "halves";
  /// "rms", "layer" (weight and bias), "weight" (a layer norm without bias), "bare".
  std::string_view norm = "rms";
  /// "pre", "one" and "two" (beside each other, with as many norms), "sandwich", "inside", "post".
  std::string_view block = "pre";
  /// "silu", "gelu" (of a gate), "fused" (silu, gate and up in one); "tanh", "erf", "relu2" without
  /// a gate;
  /// "": the feed-forward has experts, and attention alone is computed.
  std::string_view mlp = "silu";
  std::string_view biases = {};  ///< of "qkv", "o", "mlp", "head"
  std::string_view qk_norm = {}; ///< "head", "whole"
  bool fused = false;            ///< attn_qkv
  std::size_t key_heads = 2;
  std::string_view more =
      {}; ///< "positions", "types", "embedding_norm", "sinks", "latent", "headless"

  bool is_whole() const { return !mlp.empty(); }
  bool has(std::string_view word) const;
};

std::span<const GgufTraits> gguf_traits();
/// By name; throws where there is none.
const GgufTraits& gguf_traits_of(std::string_view name);

/// Sizes of all of them.
struct GgufSizes {
  static constexpr std::size_t layers = 2, width = 24, heads = 4, head = 6, wide = 20, words = 11,
                               context = 32;
};

/// The file with the keys that converters write, and random numbers.
GgufFile gguf_model(const GgufTraits& traits);

/// The logits of a whole model for some tokens: tokens × vocabulary; without a head, the last
/// layer's result.
reference::Array gguf_logits(const GgufTraits& traits, const GgufFile& file,
                             const std::vector<int>& ids);
/// Attention's output of a layer alone, its norm first, for X (T, d).
reference::Array gguf_attention(const GgufTraits& traits, const GgufFile& file, std::size_t layer,
                                const reference::Array& X);

} // namespace mha::test
