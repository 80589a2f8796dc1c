#pragma once
// Layers of kinds that are read and not computed: what their tensors say that they are, and the
// letters of their shapes.

#include <mha/load/families/description.hpp>

#include <span>

namespace mha::naming {

/// Whether one of the parts mixes tokens: else the attention beside them is a layer's.
bool has_mixer(std::span<const TensorOfKind> parts);
/// What a layer with these parts is: "is recurrent"; "" where there are none. `alone`: there is no
/// attention beside them.
std::string_view kind_of(std::span<const TensorOfKind> parts, bool alone);
/// The same as a message, by which it is refused: "data/x: layer 3 is recurrent, which is not
/// computed yet: data/x: … is A_log".
Message why_of_kind(std::string_view id, std::span<const TensorOfKind> parts, bool alone);

/// The tensors of a found layer that are of such kinds, by their names alone; of several that
/// are in one the first.
std::vector<TensorOfKind> named_of_kinds(const Found& layer);

/// What a part of a tensor and its bias are called, in which several are: "W_gate" and "b_gate".
std::pair<std::string, std::string> names_of_part(std::string_view key, const std::string& part);
/// A letter, as `sizes` say it. Throws Error where they do not.
std::size_t size_of_letter(const Description& said, const Group& group, Dim letter,
                           const std::string& where);
/// How many outputs a part of a tensor has that several are in, by the letters of its row.
std::size_t width_of_part(const Description& said, const Group& group, std::string_view name,
                          const std::string& where);
/// Throws Error where a tensor's shape is not its row's, with the letters as `sizes` and the other
/// tensors of the layer say them.
void require_sizes_of_kinds(const Description& said, const Group& group, const LayerReading& read);

} // namespace mha::naming
