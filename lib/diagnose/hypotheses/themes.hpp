#pragma once
// The list of themes: what a reference may have done in another way.

#include <mha/diagnose/hypotheses/change.hpp>

#include <span>

// Each theme has one line here. If two changes give the same numbers, the earlier one is preferred.
// clang-format off
#define MHA_THEMES(theme) \
  theme(scale)            \
  theme(swap)             \
  theme(weight)           \
  theme(bias)             \
  theme(heads)            \
  theme(rope)             \
  theme(norm)             \
  theme(softcap)          \
  theme(clip)             \
  theme(alibi)            \
  theme(causal)           \
  theme(window)           \
  theme(mask)             \
  theme(softmax)          \
  theme(output)           \
  theme(layout)           \
  theme(together)         \
  theme(reshape)          \
  theme(head_count)       \
  theme(input_norm)       \
  theme(qk_norm)          \
  theme(latent)           \
  theme(rope_scaling)     \
  theme(rope_ramp)        \
  theme(rope_turn)        \
  theme(rope_values)      \
  theme(rope_padding)     \
  theme(other_settings)   \
  theme(weight_rows)      \
  theme(position_bias)    \
  theme(mask_form)        \
  theme(softmax_form)     \
  theme(denominator)      \
  theme(joined_parts)     \
  theme(gate)             \
  theme(block_norm)       \
  theme(norm_place)       \
  theme(feed_forward)     \
  theme(feed_forward_product) \
  theme(mixture)          \
  theme(block_form)       \
  theme(shards)           \
  theme(buffers)          \
  theme(embedding)        \
  theme(model_end)        \
  theme(precision)
// clang-format on

namespace mha {

#define MHA_DECLARE_THEME(name) extern const Theme name##_theme;
MHA_THEMES(MHA_DECLARE_THEME)
#undef MHA_DECLARE_THEME

std::span<const Theme* const> themes();
/// All changes that the layer allows, in this order.
std::vector<Change> changes_for(const Subject& subject);
/// All ids, in this order.
std::vector<std::string> change_ids();

} // namespace mha
