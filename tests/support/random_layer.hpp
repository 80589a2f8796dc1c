#pragma once
// Seeded random layers: any mix of variants, every dimension another number.

#include "support/reference.hpp"

#include <random>
#include <span>

/// Random numbers that are the same with every standard library.
class Random {
public:
  explicit Random(std::uint64_t seed) : bits_(seed) {}
  double uniform(double low, double high);
  /// low … high, both included.
  std::size_t count(std::size_t low, std::size_t high);
  bool chance(double probability) { return uniform(0, 1) < probability; }

private:
  std::mt19937_64 bits_;
};

/// What may be unusual about a layer. Of two that exclude each other the later one wins.
// clang-format off
enum class Variant : std::uint8_t {
  cross, separate_sources, one_token, one_key,
  gqa, mqa,
  no_biases, identity_output, identity_queries, per_head_weights, fused_weights, columns,
  float_mask, infinite_mask, short_mask, may_attend_mask, block_mask, padding, attention_mask,
  kv_lengths,
  bias, relative_bias, relative_one_way, alibi_paper, alibi_bloom, alibi_falcon, alibi_mpt, softcap,
  causal, causal_top_left, causal_bottom_right, window_left, window_right,
  past, extra_key, zero_key, sinks,
  qk_norm, qk_norm_whole, qk_norm_one_plus,
  rope_half, rope_interleaved, rope_partial, rope_offset, positions, rope_linear, rope_llama3,
  layer_norm, rms_norm, scale_number, scale_d_model, scale_none,
  masked_nan, masked_uniform, naive, residual,
  rope_dynamic, rope_yarn, rope_longrope, rope_mrope, rope_late, qk_layer_norm, qk_norm_each, clip,
  relative_key, relative_key_query, latent, latent_queries,
  v_norm, head_norm, head_norm_whole, gate_elements, gate_heads, temperature, chunks,
  norm_after_rope,
};
// clang-format on
inline constexpr std::size_t variant_count = static_cast<std::size_t>(Variant::norm_after_rope) + 1;
const char* name_of(Variant variant);

/// How the files of a layer say it, where there are several ways.
struct Form {
  bool batched = false;
  bool single = false; ///< every number is a float's; the layer computes in float32
  bool per_head_weights = false;
  bool fused_weights = false;
  std::string qkv_order = "qkv";
  bool columns = false;
  bool may_attend_mask = false; ///< blocked as `mask`, true = may attend
  bool attention_mask = false;  ///< padding as 1 = token
  bool short_masks = false;     ///< leading axes of length 1 left out
  bool one_source = false;      ///< X_k and X_v as one X_kv
  std::string scale = "d_k";
};

struct RandomLayer {
  reference::Layer layer;
  Form form;
  std::string description; ///< for failing tests: variants and sizes
};

/// The largest sizes drawn.
struct Limits {
  std::size_t tokens = 9, heads = 6, width = 8, d_model = 12;
};

RandomLayer random_layer(std::uint64_t seed, std::span<const Variant> variants, bool single,
                         const Limits& limits = {});
/// `least` to `most` variants, drawn too.
std::vector<Variant> random_variants(std::uint64_t seed, std::size_t least, std::size_t most);
