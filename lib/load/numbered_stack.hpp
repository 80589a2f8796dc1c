#pragma once
// Finds the layers of a checkpoint with unknown names: tensors whose names differ in a number.

#include <mha/files/contents.hpp>

#include <optional>
#include <set>
#include <string>
#include <vector>

namespace mha {

/// Layers 0, 1, 2 … below one prefix. In a stack whose modules take turns (attention, feed-forward,
/// attention …) a layer is two of them.
struct NumberedStack {
  std::string literal_prefix;             ///< before the numbers: "encoder.layers."
  std::size_t first = 0;                  ///< number of the first layer, 0 or 1
  std::size_t modules = 1;                ///< in a layer
  std::vector<const io::Entry*> of_first; ///< the first layer's tensors

  std::vector<std::string> towers;  ///< prefixes of other stacks of layers: "decoder."
  std::string_view part;            ///< the part of the model that these layers are (part_of_model)
  std::set<std::string_view> parts; ///< the parts that other stacks are

  /// Whether a name of a tensor, or of an object in config.json, mentions another stack's part.
  bool is_of_other_part(std::string_view name) const;
  /// How many of the modules around the layers also contain a name: one for "encoder.norm".
  std::size_t nearness(std::string_view name) const;
  /// Whether a decoder reads the stream of these layers, and has the model's head.
  bool is_read_by_decoder() const { return part != "decoder" && parts.contains("decoder"); }
  /// The tower that contains a name, or "".
  std::string_view other_tower(std::string_view name) const;
  /// Whether a name is below the prefix and has a number there.
  bool holds(const std::string& name) const;
  /// The value of the key `layers` in a description.
  std::string prefix() const;
  /// A name of the first layer as `tensors` of a description has it.
  std::string name_in_layer(const std::string& name) const;
  /// A name with {layer} for its number, for `ignore`; unchanged outside the layers.
  std::string pattern(const std::string& name) const;
};

/// The stack with the most tensors, an encoder's before a decoder's; nothing where no names have
/// numbers.
std::optional<NumberedStack> numbered_stack(const io::Contents& file);

} // namespace mha
