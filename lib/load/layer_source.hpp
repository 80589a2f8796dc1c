#pragma once
// Reads single layers of those that were found, and keeps them. Only load/ uses it.

#include <mha/load/assemble.hpp>
#include <mha/load/doubts.hpp>
#include <mha/load/found_layers.hpp>

#include <mutex>

namespace mha {

/// One layer as read from the files.
struct ReadLayer {
  NamedTensors parts;
  Settings settings;
  Labels labels;
  LoadedLayer loaded;       ///< id, naming, origins, notes
  std::string input_source; ///< of the text that X in `parts` is from; "": none
  std::shared_ptr<const TransformerBlock> block; ///< where X is the stream, without a text
  Identities identities;                         ///< projections that the user declares so
  Sources::OfKind of_kind; ///< parts that are not computed; their tensors are not read yet
  std::vector<naming::TensorOfKind> kind_parts; ///< the tensors of `of_kind`
  bool without_attention = false;               ///< the layer has nothing but `kind_parts`
  std::vector<ModuleResult> results;            ///< of the layer
  naming::MissingStages missing;                ///< that files, bindings or a text have to give

  /// Throws Error where the layer is of a kind that is not computed.
  void require_computed() const;
  /// Puts another text's X, padding and labels in the place of this one's.
  void take_input(const LayerInput& input);
  void list_origins();
};

/// Layers that were read, kept for the next request: of texts that are computed one after the
/// other, or of a command that asks for sizes first.
class KeptLayers {
public:
  /// The kept layer, if any; `only_reader` removes it, because no other request will read it.
  std::optional<ReadLayer> find(const std::string& id, bool only_reader);
  /// Keeps what was read, with the weights in the precision of `layer`, unless there is no room.
  void keep(const std::string& id, ReadLayer parts, const Layer& layer);

private:
  std::map<std::string, ReadLayer> layers_;
  std::size_t bytes_ = 0;
};

struct LayerSource : FoundLayers {
  std::shared_ptr<LayerCounts> counts = std::make_shared<LayerCounts>();
  mutable std::mutex reading; ///< one layer is read at a time, for all callers
  mutable KeptLayers kept;
  mutable Guesses guesses;                ///< at tensors that no layer understands
  mutable std::size_t searched_for_X = 0; ///< how many layers without X were searched for one

  ReadLayer read(const std::string& id, const LayerInput* input) const;
  void add_tokens(const std::string& text, const std::string& name, Labels& labels) const;
  Message what_could_be_X(const std::string& id, std::size_t width) const;

private:
  void add(NamedTensors& parts, const std::string& name, mha::NamedTensor part) const;
  naming::InputNormalisation add_found(const naming::Found& layer, ReadLayer& read_layer) const;
  void add_norm(const naming::InputNormalisation& norm, NamedTensors& parts, Settings& settings,
                LoadedLayer& to) const;
  std::vector<UnknownTensor> add_loose(const std::string& id, NamedTensors& parts, Labels& labels,
                                       LoadedLayer& to) const;
  void add_bindings(const std::string& id, NamedTensors& parts, Labels& labels,
                    LoadedLayer& to) const;
  void add_settings(const std::string& id, Settings& settings, const NamedTensors& parts,
                    Identities& identities, std::vector<Note>& notes) const;
  void take_identities(const std::string& id, NamedTensors& parts, Identities& identities) const;
  void take_stream(ReadLayer& layer) const;
};

} // namespace mha
