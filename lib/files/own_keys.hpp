#pragma once
// Metadata that is read as a config.json and has keys of its own: what the file calls them, and
// what there is to say of them. Sections of Contents::config, which no model's config has.

#include <string_view>

namespace mha::io {

/// "own_key.rope_theta" → "llama.rope.freq_base": what the file calls a key of the config. Only of
/// these a reader must have made something.
inline constexpr std::string_view own_key_section = "own_key.";
/// "refused.llama.attention.causal" → "is false, …": why no layer of the file can be computed.
inline constexpr std::string_view refused_section = "refused.";
/// "doubted.llama.attention.layer_norm_rms_epsilon" → "is missing, …": what the user must settle.
inline constexpr std::string_view doubted_section = "doubted.";

} // namespace mha::io
