#pragma once
// The layers of a graph by the names of its weights: a family's, or those that the user describes.

#include <mha/load/families/family.hpp>
#include <mha/load/read_description.hpp>
#include <mha/load/whole_model.hpp>

namespace mha {

/// Layers refer to what is kept here: it stays where it is.
struct GraphNames {
  const io::Contents* graph = nullptr;
  io::Contents contents; ///< its weights under the paths of their modules
  naming::Config config;
  naming::Options options; ///< with the heads that the graph has
  std::vector<naming::Found> layers;
  bool is_asked_for = false; ///< a graph without such names is an error

  /// Adds what the config.json beside the file says.
  void add_config_beside();
  /// Finds the layers that `own`, which the graph computes, are by their names; none where they are
  /// others. Throws Error then where names are asked for.
  void find(const UserNaming& by, const std::vector<naming::Found>& own);
  const naming::Found& layer(const std::string& id) const;
  /// Throws Error that names the graph's node where the weights that a layer has by its names are
  /// not those that the graph computes with, `parts`. Whether they are; not, with a note, where
  /// nobody asked for names and the family does not read such a layer.
  bool hold(const naming::Found& own, const NamedTensors& parts, std::vector<Note>& notes) const;
};

/// Throws Error that names a node where the graph computes other logits (without a head: another
/// last stream) of token numbers than the model does, whose layers are the graph's own: for two
/// lengths. What else is to be known of it.
std::vector<Note> hold_against_graph(const WholeModel& model);

} // namespace mha
