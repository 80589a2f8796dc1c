#pragma once
// What stands behind a Model: the opened sources, and the layers found in them. Private to load.cpp
// and choose_layers.cpp.

#include <mha/load/assemble.hpp>
#include <mha/load/doubts.hpp>
#include <mha/load/families/family.hpp>
#include <mha/load/layer_index.hpp>
#include <mha/load/load.hpp>

namespace mha {

/// The canonical name that a file's or binding's name means, prefixes such as `blocks.0.attn.` seen
/// through; "" if it is none. `strict`: words that mean several things throw.
std::string canonical_name(std::string_view name, bool strict);
/// The same of what somebody binds at `where`; throws Error where it is none, with what was meant.
/// `of_stream`: stages of a whole model's layer may be bound, too.
std::string bound_name(const std::string& where, const std::string& typed, bool of_stream);
/// The stage of the residual stream that a binding means, "X" for resid_pre; "" if it is none.
std::string stream_name(std::string_view name);
/// The label list that a name means: "tokens", "key_tokens", or "".
std::string label_name(std::string_view name);
/// "decoder.3.cross" → 3; 0 where there is no number.
std::size_t number_of(const std::string& id);
bool file_exists(const std::string& path);

struct Model::State {
  Request request;
  std::vector<io::Source> bindings;
  std::vector<io::Contents> contents; ///< of plain sources; not changed after the constructor
  naming::Config config;
  naming::Options options; ///< request.settings by their own names
  std::vector<naming::Found> found;
  std::vector<LayerListing> listing;
  std::vector<std::string> chosen;
  std::optional<LayerIndex> index; ///< of contents, found and chosen, once these are there
  mutable io::LastOpened opened;   ///< by a binding: {layer} asks a file for one after the other

  mutable Guesses guesses;                ///< of the tensors that no layer understands
  mutable std::size_t searched_for_X = 0; ///< layers without one

  std::string what_could_be_X(const std::string& id, std::size_t width) const;
  /// The files in which no family was recognised.
  std::vector<const io::Contents*> others() const;
  void open_sources();
  void find_layers();
  void choose_layers();
  void note_inputs() const;
  /// Throws Error where several layers would be computed from one tensor that each has its own of.
  void require_varying() const;
  std::vector<std::string> numbered_by_bindings() const;
  static std::string why_missing(const io::Source& numbered, const std::string& id);
  /// How to say that maps of four axes are a stack of layers, where there are such: "; if …", or
  /// "".
  std::string stack_of_maps() const;
  void add(NamedTensors& parts, const std::string& name, mha::NamedTensor part) const;
  naming::InputNormalisation add_found(const naming::Found& layer, NamedTensors& parts,
                                       Settings& settings, LoadedLayer& to) const;
  void add_norm(const naming::InputNormalisation& norm, NamedTensors& parts, Settings& settings,
                LoadedLayer& to) const;
  void require_layers_of_bindings() const;
  void require_no_input() const;
  void open_text();
  void choose_ends();
  bool binds(const io::Source& binding, const std::string& id) const;
  void add_input(const LayerInput& input, NamedTensors& parts, Settings& settings,
                 Labels& labels) const;
  std::vector<Stranger> add_loose(const std::string& id, NamedTensors& parts, Labels& labels,
                                  LoadedLayer& to) const;
  void add_bindings(const std::string& id, NamedTensors& parts, Labels& labels,
                    LoadedLayer& to) const;
  bool says_heads(const Settings& settings, const NamedTensors& parts) const;
  void add_settings(const std::string& id, Settings& settings, const NamedTensors& parts,
                    std::vector<Note>& notes) const;
  void add_tokens(const std::string& text, const char* option, Labels& labels) const;
  void collect(const std::string& id, const LayerInput* input, NamedTensors& parts,
               Settings& settings, Labels& labels, LoadedLayer& to) const;
};

} // namespace mha
