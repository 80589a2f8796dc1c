#pragma once
// State of a Sources: the opened sources, and the layers found in them: the
// inside of load/.

#include <mha/load/assemble.hpp>
#include <mha/load/doubts.hpp>
#include <mha/load/families/family.hpp>
#include <mha/load/families/positions.hpp>
#include <mha/load/layer_index.hpp>
#include <mha/load/load.hpp>

#include <mutex>

namespace mha {

/// The canonical name that a file's or binding's name means, prefixes such as `blocks.0.attn.` seen
/// through; "" if it is none. `strict`: words that mean several things throw.
std::string canonical_name(std::string_view name, bool strict);
/// The same of what is bound at `where`; throws Error where it is none, with what was meant.
/// `of_stream`: stages of a whole model's layer may be bound, too.
std::string bound_name(const std::string& where, const std::string& typed, bool of_stream);
/// The stage of the residual stream that a binding means, "X" for resid_pre; "" if it is none.
std::string stream_name(std::string_view name);
/// The label list that a name means: "tokens", "key_tokens", or "".
std::string label_name(std::string_view name);
/// "decoder.3.cross" → 3; 0 where there is no number.
std::size_t number_of(const std::string& id);
bool file_exists(const std::string& path);

/// What the files say of one layer.
struct ReadLayer {
  NamedTensors parts;
  Settings settings;
  Labels labels;
  LoadedLayer said;                              ///< id, naming, origins, notes
  std::string input_source;                      ///< of the text that `parts` has X of; "": none
  std::shared_ptr<const TransformerBlock> block; ///< where X is the stream, without a text
  std::optional<naming::LongQueries> long_queries;
  Identities identities; ///< projections that are said to be it

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

struct Sources::State {
  Request request;
  std::vector<io::Source> bindings;
  std::vector<io::Source> identity_bindings; ///< W_o=identity
  std::vector<io::Contents> contents; ///< of plain sources; not changed after the constructor
  std::vector<io::Contents> as_files; ///< as they lie, where `contents` present them otherwise
  naming::Config config;
  naming::Options options; ///< request.settings by their own names
  std::vector<naming::Found> found;
  std::vector<LayerListing> listing;
  std::vector<std::string> chosen;
  std::map<std::string, std::vector<std::string>> lacking; ///< weights that all other layers have
  std::shared_ptr<const WholeModel> whole;                 ///< that a text is for
  std::unique_ptr<const io::Contents> named_graph; ///< of which `whole` is, where it is a graph's
  std::vector<Note> notes_of_model;                        ///< what is said of it with every layer
  std::optional<LayerIndex> index; ///< of contents, found and chosen, once these are there
  mutable io::LastOpened opened;   ///< by a binding: {layer} asks a file for one after the other

  std::shared_ptr<LayerCounts> counts = std::make_shared<LayerCounts>();
  mutable std::mutex reading; ///< one layer is read at a time, for all callers
  mutable KeptLayers kept;

  mutable Guesses guesses;                    ///< of the tensors that no layer understands
  mutable std::size_t searched_for_X = 0;     ///< layers without one
  mutable std::optional<bool> is_whole_model; ///< takes_text(), once it was asked

  Message what_could_be_X(const std::string& id, std::size_t width) const;
  bool takes_text() const;
  /// The files in which no family was recognised.
  std::vector<const io::Contents*> others() const;
  void open_sources();
  void present_contents();
  void find_family(const naming::FamilyRow* only);
  void find_described();
  void find_layers();
  void choose_layers();
  std::vector<std::string> layers_unasked(const std::vector<std::string>& ids) const;
  void check_number_of_lone(const std::string& wanted) const;
  void note_inputs() const;
  void note_lacking(const std::string& id, const NamedTensors& parts,
                    std::vector<Note>& notes) const;
  /// Which tensor several layers would be computed from though each has its own of it, and how to
  /// say what is meant; "": there is none.
  Message why_not_varying() const;
  /// Throws Error where there is such a tensor, unless the request says that it serves all.
  void require_varying() const;
  std::vector<std::string> numbered_by_bindings() const;
  static Message why_missing(const io::Source& numbered, const std::string& id);
  /// How to say that maps of four axes are a stack of layers, where there are such: "; if …", or
  /// "".
  Message stack_of_maps() const;
  void add(NamedTensors& parts, const std::string& name, mha::NamedTensor part) const;
  naming::InputNormalisation add_found(const naming::Found& layer, ReadLayer& read_layer) const;
  void add_norm(const naming::InputNormalisation& norm, NamedTensors& parts, Settings& settings,
                LoadedLayer& to) const;
  void require_layers_of_bindings() const;
  void require_no_input() const;
  void open_model();
  std::vector<naming::Found> name_graph_layers(const io::Contents& graph);
  void note_model(const std::vector<const naming::Found*>& layers);
  /// Why a text finds no model to be computed by.
  Message why_no_model() const;
  void require_known_model() const;
  void require_known_layers() const;
  void choose_ends();
  void choose_named_layers();
  bool binds(const io::Source& binding, const std::string& id) const;
  std::vector<UnknownTensor> add_loose(const std::string& id, NamedTensors& parts, Labels& labels,
                                       LoadedLayer& to) const;
  void add_bindings(const std::string& id, NamedTensors& parts, Labels& labels,
                    LoadedLayer& to) const;
  bool says_heads(const Settings& settings, const NamedTensors& parts) const;
  void add_settings(const std::string& id, Settings& settings, const NamedTensors& parts,
                    Identities& identities, std::vector<Note>& notes) const;
  void take_identities(const std::string& id, NamedTensors& parts, Identities& identities) const;
  std::vector<UnknownTensor> tensors_beside_bindings(const std::string& id) const;
  void add_tokens(const std::string& text, const std::string& name, Labels& labels) const;
  ReadLayer read(const std::string& id, const LayerInput* input) const;
  std::shared_ptr<const TransformerBlock> block_of(const std::string& id) const;
  void take_stream(ReadLayer& layer) const;
};

} // namespace mha
