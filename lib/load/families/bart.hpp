#pragma once
// q_proj, k_proj, v_proj, out_proj under self_attn and encoder_attn: BART, OPT, Whisper, CLIP.

#include <mha/load/families/family.hpp>

namespace mha::naming {

inline constexpr std::string_view bart_needs =
    "q_proj.weight k_proj.weight v_proj.weight out_proj.weight";
inline constexpr std::string_view bart_knows = "q_proj.bias k_proj.bias v_proj.bias out_proj.bias";
/// What blocks have beside attention.
inline constexpr std::string_view bart_beside =
    "self_attn encoder_attn self_attn_layer_norm encoder_attn_layer_norm fc1 fc2 final_layer_norm";

/// The projections, the encoder's or decoder's heads, causal in the decoder's self-attention.
void take_bart(Translation& to);
/// self_attn_layer_norm, or encoder_attn_layer_norm in cross-attention, before attention. Its
/// epsilon is PyTorch's own: no config of these models has another.
void set_bart_pre_norm(Translation& to);

} // namespace mha::naming
