#pragma once
// Whether a layer's names are enough to know how it is computed: by config.json's model_type, or,
// without one, by the tensors around it.

#include <mha/load/families/family.hpp>
#include <mha/system/note.hpp>

#include <string_view>
#include <vector>

namespace mha {

/// Throws Error where config.json names a model that the layer's naming does not fit, because names
/// alone do not determine its scale, its mask or its rotation. A naming that the user chose is
/// taken with a note.
std::vector<Note> require_naming_fits(const naming::Found& layer);

/// Whether the layer's naming fits the model_type in config.json.
bool is_known_model(const naming::Found& layer);

/// Throws Error for a tensor of the layer's block that its naming does not have, where neither a
/// model_type nor the user confirms the naming.
void refuse_foreign(const naming::Found& layer, std::string_view tensor);

/// Throws Error for the first such tensor among `names`, those in the file with the block's prefix.
/// Attention's own module is left out.
void refuse_foreign_in_block(const naming::Found& layer, const naming::LayerReading& read,
                             const std::vector<std::string_view>& names);

/// The prefix of a layer's block: "model.layers.0."; "" without a number.
std::string block_of(const naming::Found& layer);

} // namespace mha
