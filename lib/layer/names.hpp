#pragma once
// The table of the tensors that a layer is made of: names, axes, meanings. Files, bindings, `info`
// and docs/formats.md speak these names.

#include <mha/system/export.hpp>

#include <span>
#include <string>
#include <string_view>

namespace mha {

/// One row of the table.
struct TensorInfo {
  ///@{
  /// Its name, what it is, and what else it is called.
  std::string_view name;
  /// The order of its axes, in the letters of bindings: B batch, H head, T query, S key, D width of
  /// one head, C all widths, I in, O out.
  std::string_view axes;
  std::string_view shape; ///< in words of the design, for help and docs
  std::string_view text;
  std::string_view aliases; ///< separated by spaces
  ///@}
  bool turns = false; ///< its last two axes are exchanged in `columns`
};

MHA_API std::span<const TensorInfo> tensor_names();
/// By name or alias; nullptr if there is none. Stages can be given too: see find_stage.
MHA_API const TensorInfo* find_tensor_name(std::string_view name);

/// The axes of a name as bindings speak of them: of a tensor of the table, or of a stage ("BHTS"
/// for weights); "" for other names.
std::string axes_of(std::string_view name);

} // namespace mha
