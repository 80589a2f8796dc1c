#pragma once
// Porters' names of a whole model's steps: nodes of llama.cpp's graph, hooks of modules,
// stacks of states. The module above is part of a name: mlp.c_proj is no attention.

#include <mha/layer/block.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mha {

/// What decides between the meanings of a name.
struct Surroundings {
  const TransformerBlock* block = nullptr; ///< of the layers; null: not known
  bool bare_embedding = true;              ///< embed is the tokens' rows, nothing is added
  bool last_norm = true;
  /// What the modules of attention and of the feed-forward return, where a family's add the
  /// residual or norm, or do not where others do.
  std::optional<Stage> attention_returns, mlp_returns;
  bool one_layer = false; ///< one is chosen: a stage without a number is its
};

/// What a name says.
struct Capture {
  std::optional<std::size_t> layer; ///< its number; none: the model's ends
  bool of_last = false;             ///< what enters the last norm: a stage of the last layer
  std::vector<Stage> stages;        ///< that it may mean; empty: none
  std::vector<Stage> side_by_side;  ///< columns of several stages in one: q, k, v
  bool by_group = false; ///< their columns go by key/value head: its queries, its key, its value
  std::string why;       ///< why it is no stage, where the name is known
  /// An element of what a layer's module returns: `.0` and `.1` of a pair.
  std::optional<std::size_t> element;
  bool is_layer = false; ///< the layer's module itself
  bool cached = false;   ///< keys or values of a cache: keys as attention reads them
  bool of_node = false;  ///< a node of an exported graph
  bool product = false;  ///< of a linear module, before its bias is added
  bool anywhere = false; ///< a layer's stage without its number
};

/// The meaning of a name among a whole model's captures: "model.layers.3.mlp.down_proj.input",
/// "ffn_inp-3", "transformer.h[3].output[0]", "blocks.3.hook_resid_mid", "layers.3.mlp_act",
/// "/model/layers.3/mlp/Mul_output_0", "present.3.key", "model_layers_3_mlp_down_proj".
Capture capture_of(std::string_view name, const Surroundings& model);

/// The stage of a name whose last words are a module and its parent ("mlp.c_proj"); empty: no such
/// pair is known.
std::vector<Stage> stages_below_module(std::string_view name);

/// The rows of the table, for docs and tests: words, and the stages that they mean as the output
/// and as the input of a module.
struct CaptureRow {
  std::string_view words;
  std::vector<Stage> output, input;
  bool of_model = false;
};
std::vector<CaptureRow> capture_rows();

/// Whether a dump says it of its text, beside the stages.
inline bool is_of_text(std::string_view name) {
  return name == "ids" || name == "lengths" || name == "input_ids" || name == "token_ids" ||
         name == "attention_mask" || name == "position_ids";
}

} // namespace mha
