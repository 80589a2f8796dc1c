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

// Sections of Contents::config for formats whose metadata is translated to a config.json. No
// model's config has these names.

/// "own_key.rope_theta" → "llama.rope.freq_base": the file's own name of a key of the config. Every
/// such key must be used by a reader.
inline constexpr std::string_view own_key_section = "own_key.";
/// "refused.llama.attention.causal" → "is false, …": why no layer of the file can be computed.
inline constexpr std::string_view refused_section = "refused.";
/// "doubted.llama.attention.layer_norm_rms_epsilon" → "is missing, …": the user must decide.
inline constexpr std::string_view doubted_section = "doubted.";

/// One tensor of a file. Its size has been checked against the file; `read` costs only what it
/// reads.
struct Entry {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  /// The numbers were written without a dtype (JSON lists). They are f64, but this does not set the
  /// precision of the computation.
  bool weak_dtype = false;
  std::function<Tensor()> read;
  /// The block type, if the file stores the numbers in blocks; `read` decodes them to `dtype`.
  const BlockType* blocks = nullptr;
  /// For blocks: at each element, the distance to the next number that the block can represent, in
  /// the shape and order of `read`.
  std::function<Tensor()> steps = nullptr;
  /// The tensor's name in the file, if `name` is its name in checkpoints.
  std::string own_name = {};
  /// The tensor's name in the file.
  const std::string& name_in_file() const { return own_name.empty() ? name : own_name; }

  /// "Q4_K", "float16": the type as the file has it.
  std::string_view type_name() const { return blocks ? blocks->name : name_of(dtype); }
};

struct KeptGraph;

/// The contents of a file, folder or checkpoint.
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
  /// Remarks for `info` on parts of the file that are ignored or were resolved.
  std::vector<Message> notes;
  /// Scalars that are remarks which mention options or bindings, by name.
  std::map<std::string, Message> remarks;
  /// The starting point of the run that wrote the file (Output::run); "" if it is not recorded.
  std::string run;
  /// The graph of an ONNX model (formats/onnx_graph.hpp).
  std::shared_ptr<const KeptGraph> graph = nullptr;

  /// The tensor of that name, or nullptr. The names are sorted once, because a family looks up each
  /// of its tensors, and a file may have tens of thousands. Thread-safe.
  const Entry* find(std::string_view tensor) const;

  /// Indices of `tensors` sorted by name; cached by find().
  mutable std::shared_ptr<const std::vector<std::size_t>> order = nullptr;
};

} // namespace mha::io
