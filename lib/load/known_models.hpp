#pragma once
// Whether a layer's names are enough to know how it is computed: by config.json's model_type, or,
// without one, by the tensors around it.

#include <mha/load/families/family.hpp>
#include <mha/system/note.hpp>

#include <string_view>
#include <vector>

namespace mha {

/// Throws Error where config.json names a model that the layer's naming is not right for: names
/// alone do not tell its scale, its mask or its rotation. A naming that the user chose is taken;
/// the note says so.
std::vector<Note> require_naming_fits(const naming::Found& layer);

/// Whether the model_type in config.json is one that the layer's naming is right for.
bool is_known_model(const naming::Found& layer);

/// Throws Error for a tensor of the layer's block that is not one of its naming, where neither a
/// model_type nor the user says that the naming is right.
void refuse_stranger(const naming::Found& layer, std::string_view tensor);

/// The same for the first stranger among the names of the file that begin as the block's do, of
/// which attention's own module is left out.
void refuse_strangers_in_block(const naming::Found& layer, const naming::LayerReading& read,
                               const std::vector<std::string_view>& names);

/// What the names of a layer's block begin with: "model.layers.0."; "" without a number.
std::string block_of(const naming::Found& layer);

} // namespace mha
