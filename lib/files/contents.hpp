#pragma once
// Contents of a file of any format: tensors (read when asked for), settings, labels.

#include <mha/files/bytes.hpp>
#include <mha/system/message.hpp>
#include <mha/tensor/blocks.hpp>
#include <mha/tensor/tensor.hpp>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace mha::io {

/// "own_key.rope_theta" → "llama.rope.freq_base": what the file calls a key of the config. Only of
/// these a reader must have made something.
inline constexpr std::string_view own_key_section = "own_key.";
/// "refused.llama.attention.causal" → "is false, …": why no layer of the file can be computed.
inline constexpr std::string_view refused_section = "refused.";
/// "doubted.llama.attention.layer_norm_rms_epsilon" → "is missing, …": what the user must settle.
inline constexpr std::string_view doubted_section = "doubted.";

/// One tensor of a file. Its size has been checked against the file; `read` costs only what it
/// reads.
struct Entry {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  /// Numbers written without a dtype (JSON lists): f64, but they do not decide the precision.
  bool weak_dtype = false;
  std::function<Tensor()> read;
  /// Of numbers that the file stores in blocks: their type. `read` decodes them, to `dtype`.
  const BlockType* blocks = nullptr;
  /// Then also, in the shape and order of what is read: how far the neighbouring numbers lie that a
  /// block could have stored in an element's place.
  std::function<Tensor()> steps = nullptr;
  /// What the file calls the tensor, where `name` is what checkpoints call it.
  std::string own_name = {};
  /// The tensor's own name where another stands for it.
  const std::string& name_in_file() const { return own_name.empty() ? name : own_name; }

  /// "Q4_K", "float16": the type as the file has it.
  std::string_view type_name() const { return blocks ? blocks->name : name_of(dtype); }
};

struct KeptGraph;

/// What a file, folder or checkpoint holds.
struct Contents {
  std::string name;   ///< as the user wrote it, for messages
  std::string format; ///< "npz", "safetensors", "folder", "checkpoint" …
  std::vector<Entry> tensors;
  /// 0-d arrays, JSON scalars and safetensors metadata as text: "num_heads" → "4", "causal" →
  /// "true".
  std::vector<std::pair<std::string, std::string>> scalars;
  /// Lists of text: "tokens" → {"the", "cat"}.
  std::vector<std::pair<std::string, std::vector<std::string>>> labels;
  /// Lists of lists of text, one of each batch item.
  std::vector<std::pair<std::string, std::vector<std::vector<std::string>>>> item_labels;
  /// A checkpoint's config.json, flattened: "num_attention_heads" → "12", "rope_scaling.factor" →
  /// "8".
  std::map<std::string, std::string> config;
  /// What else lies in the file, and was set aside or seen through: for `info`.
  std::vector<Message> notes;
  /// Of the scalars that are remarks, those that refer to what can be set or given, by name.
  std::map<std::string, Message> remarks;
  /// What the run that wrote the file started from (Output::run); "" if the file does not say.
  std::string run;
  /// The graph that an ONNX model is (formats/onnx_graph.hpp).
  std::shared_ptr<const KeptGraph> graph = nullptr;

  /// The tensor of that name, or nullptr. The names are put in order once: a family asks for each
  /// of its tensors, and a file may hold tens of thousands. Thread-safe.
  const Entry* find(std::string_view tensor) const;

  /// Where the names are, in their order; kept by find().
  mutable std::shared_ptr<const std::vector<std::size_t>> order = nullptr;
};

} // namespace mha::io
