#pragma once
// Tables of GGUF: the architectures that llama.cpp's converter writes and the keys that it gives
// them, with their names in checkpoints. Private to the files that present GGUF.

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace mha::io {

/// The order of queries, keys and values in one matrix of a checkpoint. The converter stores all
/// queries first, then all keys, then all values.
enum class GgufFused : std::uint8_t {
  as_file,   ///< the same order
  per_group, ///< for each key/value head its queries, its key, its value
  separate   ///< three matrices: attn_q, attn_k, attn_v
};

/// One architecture (general.architecture).
struct GgufArchitecture {
  std::string_view name;       ///< "llama"
  std::string_view model_type; ///< of config.json
  std::string_view blocks;     ///< the prefix of a block's number: "model.layers"
  /// "token_embd=model.embed_tokens …": names in the file and in the checkpoint, without .weight
  /// and .bias, outside of the blocks and in them. A name that ends in '!' gets no .weight or
  /// .bias; # is the number of an expert, and the file has all experts in one tensor.
  std::string_view ends;
  std::array<std::string_view, 3> of_block;
  bool neighbours = false;   ///< rows of q and k are in the file's order of neighbouring pairs
  bool norms_plus_1 = false; ///< norms are stored + 1
  bool in_out = false;       ///< checkpoints store weights of blocks as (in, out), like Conv1D
  GgufFused fused = GgufFused::as_file;
};

/// The architecture of that name, or nullptr.
const GgufArchitecture* find_gguf_architecture(std::string_view name);

/// A key after "llama." and its name in config.json, for some architectures or, if these are empty,
/// for all others: the first matching row counts. "" means that no number depends on the key
/// itself. A key without a row is reported, unless a reader of GgufSettings uses it.
struct GgufKey {
  std::string_view key, config, architectures = {};
};

/// Keys of the vocabulary that a config.json has as well, by their full names.
std::span<const GgufKey> gguf_vocabulary_keys();
/// The row of a key, after "llama.", for an architecture; nullptr if it is not read.
const GgufKey* find_gguf_key(std::string_view key, std::string_view architecture);
/// The architectures with RMS norms; the others have layer norms.
inline constexpr std::string_view gguf_rms_normed =
    "llama mistral3 smollm3 granite granitemoe baichuan xverse minicpm internlm2 arcee qwen2 "
    "qwen2moe qwen2vl qwen3 qwen3moe olmo2 olmoe exaone exaone4 exaone-moe ernie4_5 ernie4_5-moe "
    "eurobert seed_oss glm4 glm4moe gpt-oss deepseek deepseek2 dots1 minimax-m2 hunyuan-dense "
    "hunyuan-moe bailingmoe gemma gemma2 gemma3 phi3 afmoe laguna llama4 mimo2 step35 gemma4 bailingmoe2";
/// The architectures without rotation.
inline constexpr std::string_view gguf_unrotated = "gpt2 starcoder bloom mpt bert";
/// The architectures in which a pattern determines which layers have a window.
inline constexpr std::string_view gguf_alternating =
    "gemma2 gemma3 olmo2 gpt-oss cohere2 exaone4 exaone-moe afmoe laguna llama4 mimo2 step35 gemma4";
/// Of these, the ones whose layers with a window have a rotation of their own.
inline constexpr std::string_view gguf_two_rotations = "laguna mimo2 step35 gemma4";
/// The architectures in which all layers have a window, if the file has one.
inline constexpr std::string_view gguf_windowed = "llama mistral3 phi3 starcoder2";
/// The mixtures whose experts have the sigmoid of their logits as scores.
inline constexpr std::string_view gguf_sigmoid_experts = 
    "glm4moe dots1 exaone-moe minimax-m2 afmoe laguna llama4 mimo2 step35 bailingmoe2";
/// The architectures whose last blocks may predict further tokens. These are not counted as layers.
inline constexpr std::string_view gguf_with_further_blocks =
    "glm4moe exaone-moe mimo2 step35 bailingmoe2";
/// The mixtures whose experts may be in groups.
inline constexpr std::string_view gguf_grouped_experts = "deepseek2 glm4moe dots1 exaone-moe bailingmoe2";

} // namespace mha::io
