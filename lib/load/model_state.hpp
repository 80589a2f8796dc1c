#pragma once
// What stands behind a Model: the opened sources, and the layers found in them. Private to load.cpp
// and choose_layers.cpp.

#include <mha/load/assemble.hpp>
#include <mha/load/families/family.hpp>
#include <mha/load/layer_index.hpp>
#include <mha/load/load.hpp>

namespace mha {

/// The canonical name that a file's or binding's name means, prefixes such as `blocks.0.attn.` seen
/// through; "" if it is none. `strict`: words that mean several things throw.
std::string canonical_name(std::string_view name, bool strict);
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

  void open_sources();
  void find_layers();
  void choose_layers();
  void note_inputs() const;
  std::vector<std::string> numbered_by_bindings() const;
  void add(NamedTensors& parts, const std::string& name, mha::NamedTensor part) const;
  naming::InputNormalisation add_found(const naming::Found& layer, NamedTensors& parts,
                                       Settings& settings, LoadedLayer& to) const;
  void add_norm(const naming::InputNormalisation& norm, NamedTensors& parts, Settings& settings,
                LoadedLayer& to) const;
  void require_no_input() const;
  void open_text();
  void choose_ends();
  bool binds(const io::Source& binding, const std::string& id) const;
  void add_input(const LayerInput& input, NamedTensors& parts, Settings& settings,
                 Labels& labels) const;
  void add_loose(const std::string& id, NamedTensors& parts, Labels& labels, LoadedLayer& to) const;
  void add_bindings(const std::string& id, NamedTensors& parts, Labels& labels,
                    LoadedLayer& to) const;
  void add_settings(Settings& settings, std::vector<std::string>& notes) const;
  void add_tokens(const std::string& text, const char* option, std::vector<std::string>& tokens,
                  std::string& source) const;
  void collect(const std::string& id, const LayerInput* input, NamedTensors& parts,
               Settings& settings, Labels& labels, LoadedLayer& to) const;
};

} // namespace mha
