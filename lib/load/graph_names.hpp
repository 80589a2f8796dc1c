#pragma once
// The layers and the model of a graph by the names of its weights: a family's names, or those that
// the user describes.

#include <mha/load/families/family.hpp>
#include <mha/load/read_description.hpp>
#include <mha/load/whole_model.hpp>

namespace mha {

/// Layers refer to members of this, so that it must not move.
struct GraphNames {
  const io::Contents* graph = nullptr;
  io::Contents contents; ///< its weights under the paths of their modules
  naming::Config config;
  naming::Options options; ///< with the heads that the graph has
  std::vector<naming::Found> layers;
  bool is_asked_for = false; ///< a graph without such names is an error

  /// Adds the config.json beside the file.
  void add_config_beside();
  /// Finds the layers by name; none where they are not the layers `own` that the graph computes,
  /// which is an Error where names are asked for.
  void find(const UserNaming& by, const std::vector<naming::Found>& own);
  const naming::Found& layer(const std::string& id) const;
  /// Compares the weights that a layer has by its names with `parts`, those that the graph computes
  /// with. Throws Error with the graph's node where they differ. Returns false with a note where
  /// names are not asked for and the family does not read such a layer.
  bool hold(const naming::Found& own, const NamedTensors& parts, std::vector<Note>& notes) const;
};

/// Compares what a graph computes from token numbers with the model, whose layers are the graph's
/// own, for two lengths. Throws Error with a node where the logits (without a head: the last
/// stream) differ. Returns further notes.
std::vector<Note> hold_against_graph(const WholeModel& model);

} // namespace mha
