#pragma once
// The layers in opened files, the chosen ones, and their whole model. Only load/ uses it.

#include <mha/load/families/positions.hpp>
#include <mha/load/graph_names.hpp>
#include <mha/load/layer_index.hpp>
#include <mha/load/opened_files.hpp>
#include <mha/load/read_description.hpp>

#include <list>

namespace mha {

struct FoundLayers : OpenedFiles {
  std::vector<naming::Found> found;
  std::list<GraphNames> names_of_graphs;
  /// The layers found, a graph's by the names of its weights, where it has such.
  std::vector<naming::Found> recognised;
  std::vector<LayerListing> listing;
  std::vector<std::string> chosen;
  std::map<std::string, std::vector<std::string>> lacking; ///< weights that all other layers have
  std::shared_ptr<const WholeModel> whole;                 ///< the one that a text is for
  std::vector<Note> notes_of_model;                        ///< about the model, with every layer
  std::optional<LayerIndex> index; ///< of contents, found and chosen, once these are there
  mutable std::optional<bool> is_whole_model;       ///< takes_text(), once it was asked
  mutable std::shared_ptr<const WholeModel> around; ///< of lone layers, once one was asked for,
  mutable std::optional<std::vector<Note>> notes_of_graph; ///< and compared with its graph

  void find_layers();
  void choose_layers();
  void choose_ends();
  void open_model();
  /// Throws Error where one tensor would serve layers that each have their own, unless the request
  /// allows it (--same-x).
  void require_varying() const;
  /// Names that tensor and how to write what is meant; "": there is none.
  Message why_not_varying() const;
  /// How to mark maps of four axes as a stack of layers, "; if …"; "" where there are no such maps.
  Message stack_of_maps() const;
  /// The files in which no family was recognised.
  std::vector<const io::Contents*> others() const;
  bool takes_text() const;
  /// The names of the weights of a graph's layer; null where they have none.
  const GraphNames* names_of(const naming::Found& layer) const;
  bool binds(const io::Source& binding, const std::string& id) const;
  /// The block around a layer; null where the files are not a whole model, or where a graph
  /// computes another model than its names imply, with a note.
  std::shared_ptr<const TransformerBlock> block_of(const std::string& id,
                                                   std::vector<Note>& notes) const;
  void note_inputs() const;
  void note_lacking(const std::string& id, const NamedTensors& parts,
                    std::vector<Note>& notes) const;
  void require_known_model() const;

private:
  void find_in_graph(const io::Contents& graph, const UserNaming& by);
  void check_number_of_lone(const std::string& wanted) const;
  void choose_named_layers();
  void note_model(const std::vector<const naming::Found*>& layers);
  void require_layers_of_bindings() const;
  /// Why there is no model that could compute a text.
  Message why_no_model() const;
};

} // namespace mha
