#pragma once
// Traits of the models whose tensors have LLaMA's names: a row for each kind of them.

#include <mha/load/families/windows.hpp>

#include <cstdint>
#include <string_view>

namespace mha::naming {

/// Whether a module has biases: config.json's `key`, or `otherwise` where that is silent or the
/// module has no key.
struct BiasKey {
  std::string_view key = {};
  bool otherwise = false;
};

/// The norm of a block where its tensors do not tell: a layer norm without a bias looks like an RMS
/// norm.
enum class BlockNorm : std::uint8_t { rms, layer, layer_if_biased };

/// One kind of models, as Transformers makes them.
struct LlamaTraits {
  std::string_view models; ///< the model_types of config.json
  BiasKey qkv_bias = {.key = "attention_bias"};
  BiasKey output_bias = qkv_bias;
  BlockNorm norm = BlockNorm::rms;
  /// Of every norm, queries' and keys' too: config.json's `eps_key`, or `eps` where that is silent.
  std::string_view eps_key = "rms_norm_eps";
  double eps = 1e-6;
  bool qk_norm = false;  ///< whether queries and keys may be normalised
  BiasKey mlp_bias = {}; ///< of the family LLaMA; others say it in their records
  std::string_view rope = "half";
  double rope_base = 10000;     ///< where config.json is silent
  double rope_part = 1;         ///< of a head that is rotated, where config.json is silent
  Slides slides = nullptr;      ///< the layers with a window; null: none has one
  std::size_t window_width = 0; ///< where config.json is silent
};

/// The row of a layer's model; null where config.json names none, or another.
const LlamaTraits* llama_traits(const Group& group);

} // namespace mha::naming
