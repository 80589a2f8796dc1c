#pragma once
// Names of captures taken apart: a path's words, the layer's number, a node of an exported graph.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mha {

/// An operator of an exported graph: "Mul_1_output_0" is result 0 of the second Mul of its module.
struct GraphNode {
  std::string name; ///< "Mul_1"; empty: the name is no node's
  std::size_t result = 0;

  bool present() const { return !name.empty(); }
};

struct CapturePath {
  std::vector<std::string> words; ///< behind the layer's number; without one, all
  std::optional<std::size_t> layer;
  GraphNode node;
  bool own_form = false; ///< "layers.3.STAGE", as dumps of this program have it
};

/// Whether a word says that the number behind it is a layer's: "layers", "h", "blk".
bool is_layer_word(std::string_view word);
/// Whether a word means the caches of keys and values: "past_key_values".
bool is_cache(std::string_view word);
/// The words of a name whose parts are separated: "model.layers.3.mlp.down_proj.input",
/// "transformer.h[3].output[0]", "ffn_inp-3", "/model/layers.3/mlp/down_proj/MatMul_output_0",
/// "intermediates/layers_3/mlp/__call__/0", "attn_out_3".
CapturePath path_of(std::string_view name);
/// The readings of a name that has underscores for separators, the likeliest first:
/// "model_layers_3_self_attn_q_proj", "layer3_attn_out".
std::vector<CapturePath> flat_paths_of(std::string_view name);

} // namespace mha
