#pragma once
// The keys that llama.cpp's converter writes: a table. Private to the files that present GGUF.

#include <span>
#include <string_view>

namespace mha::io {

/// A key after "llama." and its name in config.json: of the first row whose architectures, where it
/// says some, have this one. "": no number depends on it by itself. A key without a row is told,
/// unless a reader of GgufSettings asks for it.
struct GgufKey {
  std::string_view key, config, architectures = {};
};

/// Keys of the vocabulary that a config.json has, too, by their whole names.
std::span<const GgufKey> gguf_vocabulary_keys();
/// The row of a key, after "llama.", for an architecture; nullptr: nothing here reads it.
const GgufKey* find_gguf_key(std::string_view key, std::string_view architecture);
/// The architectures that have RMS norms; the others' are layer norms.
inline constexpr std::string_view gguf_rms_normed =
    "llama mistral3 smollm3 granite baichuan xverse minicpm internlm2 arcee qwen2 qwen2moe qwen2vl "
    "qwen3 qwen3moe olmo2 exaone exaone4 ernie4_5 eurobert seed_oss glm4 gpt-oss deepseek2 gemma "
    "gemma2 gemma3 phi3";
/// Those whose layers do not rotate.
inline constexpr std::string_view gguf_unrotated = "gpt2 starcoder bloom mpt bert";
/// Those in which some layers have a window, by a pattern.
inline constexpr std::string_view gguf_alternating = "gemma2 gemma3 olmo2 gpt-oss cohere2 exaone4";
/// Those with a window in every layer, where the file has one.
inline constexpr std::string_view gguf_windowed = "llama mistral3 phi3 starcoder2";

} // namespace mha::io
