#pragma once
// Leftovers of a whole model's checkpoint, which no reader asks for: tensors, settings, an adapter.

#include <mha/load/families/family.hpp>
#include <mha/system/note.hpp>

#include <string_view>
#include <vector>

namespace mha {

/// Reads the layers of a whole model as an outline and returns warnings about what is left over.
/// Throws Error for what a layer lacks, and for leftovers of a quantisation, without which the
/// weights are other numbers. The model's ends have been read before, with the same groups.
std::vector<Note> leftovers_of(const std::vector<const naming::Found*>& layers,
                               const naming::Options& options);

/// Throws Error for a tensor that stands beside quantised weights, without which they are other
/// numbers: "q_proj.weight_scale", "SCB", "absmax".
void refuse_quantised(std::string_view file, std::string_view tensor);

} // namespace mha
