#pragma once
// Reads single layers of those that were found, and keeps what was read: the inside of load/.

#include <mha/load/assemble.hpp>
#include <mha/load/doubts.hpp>
#include <mha/load/found_layers.hpp>

#include <mutex>

namespace mha {

/// What the files say of one layer.
struct ReadLayer {
  NamedTensors parts;
  Settings settings;
  Labels labels;
  LoadedLayer loaded;                            ///< id, naming, origins, notes
  std::string input_source;                      ///< of the text that `parts` has X of; "": none
  std::shared_ptr<const TransformerBlock> block; ///< where X is the stream, without a text
  std::optional<naming::LongQueries> long_queries;
  Identities identities;   ///< projections that are said to be it
  Sources::OfKind of_kind; ///< what is not computed; its tensors are not read yet
  std::vector<naming::TensorOfKind> kind_parts; ///< these tensors
  bool without_attention = false;               ///< the layer has nothing but these

  /// Throws Error where the layer is of a kind that is not computed.
  void require_computed() const;
  /// Puts another text's X, padding and labels in the place of this one's.
  void take_input(const LayerInput& input);
  void list_origins();
};

/// Layers as they were read, for the next request: of texts that are computed one after the
/// other, or of a command that asks for sizes first.
class KeptLayers {
public:
  /// What is kept of a layer, if anything; `only_reader`: it is not kept any longer.
  std::optional<ReadLayer> find(const std::string& id, bool only_reader);
  /// Keeps what was read, and of it what `layer` has in its own precision, unless there is no room.
  void keep(const std::string& id, ReadLayer parts, const Layer& layer);

private:
  std::map<std::string, ReadLayer> layers_;
  std::size_t bytes_ = 0;
};

struct LayerSource : FoundLayers {
  std::shared_ptr<LayerCounts> counts = std::make_shared<LayerCounts>();
  mutable std::mutex reading; ///< one layer is read at a time, for all callers
  mutable KeptLayers kept;
  mutable Guesses guesses;                ///< of the tensors that no layer understands
  mutable std::size_t searched_for_X = 0; ///< layers without one

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
