#pragma once
// The row of layers in a checkpoint of any names: tensors that are alike but for a number.

#include <mha/files/contents.hpp>

#include <optional>
#include <set>
#include <string>
#include <vector>

namespace mha {

/// Layers 0, 1, 2 … below one prefix. In a stack whose modules take turns (attention, feed-forward,
/// attention …) a layer is two of them.
struct NumberedStack {
  std::string literal_prefix;             ///< what stands before the numbers: "encoder.layers."
  std::size_t first = 0;                  ///< number of the first layer, 0 or 1
  std::size_t modules = 1;                ///< of a layer
  std::vector<const io::Entry*> of_first; ///< the first layer's tensors

  std::vector<std::string> towers;  ///< what other stacks of layers stand below: "decoder."
  std::string_view part;            ///< of the model, that these layers are (part_of_model)
  std::set<std::string_view> parts; ///< that other stacks are

  /// Whether a name, of a tensor or of an object in config.json, is another stack's by its words.
  bool is_of_other_part(std::string_view name) const;
  /// How many of the modules around the layers a name is below: "encoder.norm" of one.
  std::size_t nearness(std::string_view name) const;
  /// Whether the stream of these layers is read by a decoder, whose head the model's is.
  bool is_read_by_decoder() const { return part != "decoder" && parts.contains("decoder"); }
  /// The tower that a name is below, or "".
  std::string_view other_tower(std::string_view name) const;
  /// Whether a name is below the prefix and has a number there.
  bool holds(const std::string& name) const;
  /// The key `layers` of a description.
  std::string prefix() const;
  /// A name of the first layer as a description says it in `tensors`.
  std::string name_in_layer(const std::string& name) const;
  /// A name with {layer} for its number, as `ignore` takes it; itself outside of the layers.
  std::string pattern(const std::string& name) const;
};

/// The stack with the most tensors, an encoder's before a decoder's; nothing where no names are
/// numbered.
std::optional<NumberedStack> numbered_stack(const io::Contents& file);

} // namespace mha
