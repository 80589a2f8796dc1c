#pragma once
// Names of captures taken apart: words and layer numbers of paths, a table of modules' meanings,
// nodes of an exported graph.

#include <mha/compare/captures.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mha {

/// An operator of an exported graph: "Mul_1_output_0" is result 0 of the second Mul of its module.
struct GraphNode {
  std::string name; ///< "Mul_1"; empty if the name is not a node's
  std::size_t result = 0;

  bool present() const { return !name.empty(); }
};

struct CapturePath {
  std::vector<std::string> words; ///< after the layer's number; all if there is no number
  std::optional<std::size_t> layer;
  GraphNode node;
  bool own_form = false; ///< "layers.3.STAGE", as in dumps of this program
};

/// Whether a number after this word is a layer's: "layers", "h", "blk".
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

/// The kinds of blocks in which a row of the table holds.
enum class When : std::uint8_t {
  any,
  sequential,
  parallel,
  post,
  inner,
  gated_mlp,
  plain,
  bare,
  mixture,
  beside_dense, ///< a mixture whose shared experts are a module called mlp, each with norms
};

struct CaptureMeaning {
  When when;
  std::string_view words; ///< the last one to three words of a module's path
  std::vector<Stage> output, input;
  std::string_view why = {};
};

/// The modules of a layer and of the model's ends. The first row that holds wins.
const std::vector<CaptureMeaning>& layer_meanings();
const std::vector<CaptureMeaning>& model_meanings();

/// The last words of a path, with dots.
std::string tail_of(const std::vector<std::string>& words, std::size_t count);
/// The row of a path's last words, or null. Longer endings are tried first, down to `fewest` words.
const CaptureMeaning* meaning_of(const std::vector<CaptureMeaning>& table,
                                 const std::vector<std::string>& words, const Surroundings& model,
                                 std::size_t fewest = 1);

/// Whether a row is a norm: its input is the stream, or a result that is added to the stream.
bool is_norm(const CaptureMeaning& row);

/// Reads a node of the layer's own module; `named`: its path has further words ("output").
void take_node_of_layer(const GraphNode& node, bool named, const Surroundings& model,
                        Capture& capture);
/// Reads a node of a module. `capture` comes in as the module's output; `row` (or null) and `words`
/// are the module's row and path.
void take_node_of_module(const GraphNode& node, const CaptureMeaning* row,
                         const std::vector<std::string>& words, const Surroundings& model,
                         Capture& capture);

} // namespace mha
