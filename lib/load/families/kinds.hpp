#pragma once
// Kinds of layers that are read but not computed: recognising them by their tensors, and the
// letters of their shapes.

#include <mha/load/families/description.hpp>

#include <span>

namespace mha::naming {

/// Whether one of the parts mixes tokens, so that attention is not the layer's only mixer.
bool has_mixer(std::span<const TensorOfKind> parts);
/// The kind of a layer with these parts, as a predicate: "is recurrent"; "" without parts. `alone`:
/// the layer has no attention.
std::string_view kind_of(std::span<const TensorOfKind> parts, bool alone);
/// The message that refuses such a layer: "layer 3 is recurrent, which is not computed yet:
/// data/x: … is A_log".
Message why_of_kind(std::string_view id, std::span<const TensorOfKind> parts, bool alone);

/// The tensors of a found layer that belong to such kinds, by their names alone. Of a tensor with
/// several parts, only the first part is listed.
std::vector<TensorOfKind> named_of_kinds(const Found& layer);

/// The names of one part of a tensor with several parts, and of its bias: "W_gate" and "b_gate".
std::pair<std::string, std::string> names_of_part(std::string_view key, const std::string& part);
/// The size of a letter from the description's `sizes`. Throws Error if they lack it.
std::size_t size_of_letter(const Description& description, const Group& group, Dim letter,
                           const std::string& where);
/// The number of outputs of one part of a tensor with several parts, from the letters of its row.
std::size_t width_of_part(const Description& description, const Group& group, std::string_view name,
                          const std::string& where);
/// Throws Error if a tensor does not have the shape of its row, where the letters have the sizes
/// given by `sizes` and by the layer's other tensors.
void require_sizes_of_kinds(const Description& description, const Group& group,
                            const LayerReading& read);

} // namespace mha::naming
