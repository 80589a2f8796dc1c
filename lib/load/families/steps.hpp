#pragma once
// Functions that a family's file calls by name, where no data says it shorter.

#include <mha/load/families/description.hpp>

#include <span>
#include <string_view>

namespace mha::naming {

/// A test of a layer's tensors, for the conditions of a file: {"test": NAME}.
struct GroupTest {
  std::string_view name;
  bool (*holds)(const Group& group);
};
std::span<const GroupTest> group_tests();

/// A step of reading a layer: "steps": {NAME: arguments}. After the tensors and settings that are
/// listed, in the file's order.
struct LayerStep {
  std::string_view name;
  void (*take)(LayerReading& to, const JsonTree& arguments);
  std::string_view arguments = {}; ///< members of them, separated by spaces; "*": any names
};
std::span<const LayerStep> layer_steps();

/// A step of what is said of a whole model: "model_steps": {NAME: arguments}.
struct ModelStep {
  std::string_view name;
  void (*settle)(const Group& group, Description& said, const JsonTree& arguments);
  std::string_view arguments = {}; ///< the same of it
};
std::span<const ModelStep> model_steps();

} // namespace mha::naming
