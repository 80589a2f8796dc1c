#pragma once
// Leftovers of a whole model's checkpoint that no reader asks for: tensors, settings, an adapter.

#include <mha/load/families/family.hpp>
#include <mha/system/note.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace mha {

/// Reads the layers of a whole model as an outline and returns warnings about leftovers. Throws
/// Error for what a layer lacks, and for leftovers of a quantisation, without which the weights are
/// wrong. The model's ends must have been read before with the same groups.
std::vector<Note> leftovers_of(const std::vector<const naming::Found*>& layers,
                               const naming::Options& options);

/// Warns about `names`, tensors beside the weights of a layer's projections that may change what
/// these compute: an adapter. Throws Error where they are a quantisation's.
void note_unread(const naming::Group& group, const std::vector<std::string>& names,
                 std::vector<Note>& notes);

/// Warns about the tensors `names` in the module of a layer's attention that no family knows and
/// the layer is computed without. Left out are those of `noted`, names after the prefix, and a
/// rotation's frequencies where the layer rotates.
void note_unknown(const naming::Found& layer, const naming::LayerReading& read,
                  const std::vector<std::string>& names, const std::vector<std::string>& noted,
                  std::vector<Note>& notes);

/// Throws Error for a tensor that quantised weights cannot be read without: "q_proj.weight_scale",
/// "SCB", "absmax".
void refuse_quantised(std::string_view file, std::string_view tensor);

} // namespace mha
