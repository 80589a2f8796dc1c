#pragma once
// GPT-2's tensor names, which three families share: h.N.attn.c_attn and c_proj.

#include <mha/load/families/family.hpp>

namespace mha::naming {

inline constexpr std::string_view gpt2_needs = "c_attn.weight c_proj.weight";
// `bias` and `masked_bias` are the causal mask and what it fills in: never a bias.
inline constexpr std::string_view gpt2_knows =
    "c_attn.bias c_proj.bias q_attn.weight q_attn.bias bias masked_bias";

/// Heads, causal, ln_1, and the notes on the mask's buffers.
void finish_gpt2(Translation& to);
/// 1/√d, unless scale_attn_weights is false, and 1/(layer + 1) if scale_attn_by_inverse_layer_idx
/// is true.
void set_gpt2_scale(Translation& to);

} // namespace mha::naming
