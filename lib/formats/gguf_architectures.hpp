#pragma once
// Architectures of GGUF: the names that llama.cpp's converter gives, and their way back: a table.

#include <array>
#include <cstdint>
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

} // namespace mha::io
