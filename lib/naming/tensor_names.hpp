#pragma once
// Tensors by name: those of the table, and those of layers that are read and not computed.

#include <mha/layer/names.hpp>

#include <span>
#include <string>
#include <string_view>

namespace mha {

/// What a description names of layers of kinds that are read and not computed. Those of a mixture
/// are a feed-forward's: the attention beside it is computed.
MHA_API std::span<const TensorInfo> tensors_of_kinds();
MHA_API const TensorInfo* find_tensor_of_kind(std::string_view name); ///< by name, or nullptr
inline constexpr std::string_view mixture_kind = "is a mixture of experts";
/// By name or alias; nullptr if there is none. Stages can be given too: see find_stage.
MHA_API const TensorInfo* find_tensor_name(std::string_view name);

/// "(B,) T, d_model", "d_in, H·d_k or H, d_in, d_k": for help, docs and messages.
std::string shape_text(const TensorInfo& info);

/// The axes of a name as bindings speak of them: of a tensor of the table, or of a stage ("BHTS"
/// for weights); "" for other names.
std::string axes_of_name(std::string_view name);

} // namespace mha
