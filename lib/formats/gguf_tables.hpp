#pragma once
// Tables of GGUF: the architectures that llama.cpp's converter writes and the keys that it gives
// them, with their names in checkpoints. Private to the files that present GGUF.

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace mha::io {

/// How queries, keys and values lie in one matrix of a checkpoint, where the converter put all
/// queries first, then all keys, then all values.
enum class GgufFused : std::uint8_t {
  as_file,   ///< the same
  per_group, ///< by key/value head: its queries, its key, its value
  separate   ///< not one matrix, but three: attn_q, attn_k, attn_v
};

/// One architecture (general.architecture).
struct GgufArchitecture {
  std::string_view name;       ///< "llama"
  std::string_view model_type; ///< of config.json
  std::string_view blocks;     ///< what stands before a block's number: "model.layers"
  /// "token_embd=model.embed_tokens …": the file's name without .weight and .bias, and a
  /// checkpoint's, outside of the blocks and in them. One that ends in '!' is whole without these;
  /// # stands for the number of an expert, which lie on top of each other in the file.
  std::string_view ends;
  std::array<std::string_view, 3> of_block;
  bool neighbours = false;   ///< rows of q and k were put in pairs of neighbours
  bool norms_plus_1 = false; ///< norms are stored + 1
  bool in_out = false;       ///< weights of blocks lie (in, out) in checkpoints, as Conv1D's
  GgufFused fused = GgufFused::as_file;
};

/// The one of that name, or nullptr.
const GgufArchitecture* find_gguf_architecture(std::string_view name);

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
