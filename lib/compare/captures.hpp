#pragma once
// Names that other programs give a whole model's steps: nodes of llama.cpp's graph, hooks of
// modules, stacks of states. The module above is part of a name: mlp.c_proj does not belong to
// attention.

#include <mha/layer/layer.hpp>

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mha {

/// Properties of the model that decide between the meanings of a name.
struct Surroundings {
  const TransformerBlock* block = nullptr; ///< of the layers; null: not known
  bool bare_embedding = true;              ///< embed is the tokens' rows, nothing is added
  bool last_norm = true;
  /// The stages that a family's attention and feed-forward modules return, where those differ from
  /// the usual: the module adds the residual or norms, or leaves out what others do.
  std::optional<Stage> attention_returns, mlp_returns;
  bool one_layer = false; ///< one layer is chosen: stages without a number belong to it
  /// What modules of the layer's file return, and the layer's qkv_order.
  std::span<const ModuleResult> results;
  std::string qkv_order = "qkv";
};

/// The meaning of a captured tensor's name.
struct Capture {
  std::optional<std::size_t> layer; ///< nothing: the model's ends
  bool of_last = false;             ///< the input of the last norm: a stage of the last layer
  std::vector<Stage> stages;        ///< the possible stages
  std::vector<Stage> side_by_side;  ///< columns of several stages in one tensor: q, k, v
  std::size_t groups = 1; ///< in each of them all are side by side; 0: of each key/value head
  double factor = 1;      ///< times which the module's result is the stage
  std::string factor_name;
  std::string why; ///< why a known name is not a stage
  /// An element of a module's tuple: `.0` and `.1` of a pair.
  std::optional<std::size_t> element;
  bool is_layer = false; ///< the layer's module itself
  bool cached = false;   ///< keys or values of a cache; keys are those that attention reads
  bool of_node = false;  ///< a node of an exported graph
  bool product = false;  ///< a linear module's product, before its bias is added
  bool anywhere = false; ///< a layer's stage without a layer number
};

/// The meaning of a name among a whole model's captures: "model.layers.3.mlp.down_proj.input",
/// "ffn_inp-3", "transformer.h[3].output[0]", "blocks.3.hook_resid_mid", "layers.3.mlp_act",
/// "/model/layers.3/mlp/Mul_output_0", "present.3.key", "model_layers_3_mlp_down_proj".
Capture capture_of(std::string_view name, const Surroundings& model);

/// The meaning of a name that ends with a module of `results`, its result and not its input.
std::optional<Capture> result_of_module(std::string_view name, const Surroundings& model);
/// The input or output of a known module by its name ("self_attn.o_proj.input"), which a layer may
/// lack; nothing of other names.
std::optional<Capture> side_of_module(std::string_view name);

/// The stages of a name that ends with a known module and its parent ("mlp.c_proj").
std::vector<Stage> stages_below_module(std::string_view name);

/// The rows of the table, for docs and tests: words, and the stages that they mean as the output
/// and as the input of a module.
struct CaptureRow {
  std::string_view words;
  std::vector<Stage> output, input;
  bool of_model = false;
};
std::vector<CaptureRow> capture_rows();

/// Whether a tensor beside the stages of a dump describes its text.
inline bool is_of_text(std::string_view name) {
  return name == "ids" || name == "lengths" || name == "input_ids" || name == "token_ids" ||
         name == "attention_mask" || name == "position_ids";
}

} // namespace mha
