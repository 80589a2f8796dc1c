#pragma once
// From named tensors and settings to a layer: every shape is checked against every other, once.

#include <mha/layer/layer.hpp>
#include <mha/load/source.hpp>
#include <mha/system/note.hpp>

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace mha {

/// A tensor as read from a file or binding, before it is checked and converted.
struct NamedTensor {
  Tensor tensor;
  std::string
      source; ///< where it is, for messages: "weights.npz: W_q", "data/llama: …q_proj.weight"
  bool bound = false; ///< by NAME=: then a stage always replaces its computation
  bool weak = false;  ///< numbers without a dtype (JSON lists), which do not decide the precision
  bool loose = false; ///< bound without @AXES to a tensor of another name
  bool rows = false;  ///< applied to rows, X W, even where the files' tokens are columns
  /// Where `source` mentions a conversion (transposed, a part of a fused weight): the tensor in the
  /// file alone, for `info`; else "".
  std::string from{};
  /// Where the file does not name the axes: the binding without axes that reads the tensor, to
  /// which they can be added ("q=good.pt:q"); else "".
  std::string bare_binding{};
  const std::string& origin() const { return from.empty() ? source : from; }
};
/// By canonical names (layer/names.hpp) or names of stages.
using NamedTensors = std::map<std::string, NamedTensor>;

struct Labels {
  std::vector<std::string> tokens, key_tokens;
  std::string tokens_source, key_tokens_source;
  std::vector<std::vector<std::string>> item_tokens, item_key_tokens; ///< one list a batch item

  /// Of "tokens" or "key_tokens"; later ones replace earlier ones.
  void take(std::string_view name, io::LabelLists lists, std::string source);
};

/// Whether the setting `columns` transposes the last two axes of this tensor or stage.
bool turns_in_columns(const std::string& name, const Tensor& tensor);

/// The precision a layer is computed in: `wanted`, else that of X or of the earliest given stage.
/// Numbers without a dtype count as f64 where no tensor has one, other dtypes than f64 as f32.
DType compute_dtype(const NamedTensors& parts, std::optional<DType> wanted);

/// Checks and converts everything. `notes` gets a line for every default that was taken silently
/// and every result that was skipped. Throws Error "weights.npz: W_q is (64, 60): 60 columns do
/// not split into 8 heads; give --num-heads or fix W_q".
Layer make_layer(NamedTensors parts, Settings settings, std::optional<DType> dtype = std::nullopt,
                 Labels labels = {}, std::vector<Note>* notes = nullptr);

} // namespace mha
