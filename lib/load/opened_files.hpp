#pragma once
// The sources of a request, opened, and what their names mean: the inside of load/.

#include <mha/files/inputs.hpp>
#include <mha/load/doubts.hpp>
#include <mha/load/families/family.hpp>
#include <mha/load/load.hpp>

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
/// Whether there is no more than one layer, which has no number.
bool is_lone(const std::vector<std::string>& ids);

/// What the user named: files with their layers, single tensors bound to names, and settings.
struct OpenedFiles {
  Request request;
  std::vector<io::Source> bindings;
  std::vector<io::Source> identity_bindings; ///< W_o=identity
  std::vector<io::Contents> contents; ///< of plain sources; not changed once layers are found
  std::vector<io::Contents>
      as_files; ///< as they are stored, where `contents` present them otherwise
  naming::Config config;
  naming::Options options;       ///< request.settings by their own names
  mutable io::LastOpened opened; ///< by a binding: {layer} asks a file for one after the other

  void open_sources();
  /// Puts shared weights under the names of each layer that has them (ALBERT); else changes
  /// nothing.
  void present_contents();
  /// The layers that `{layer}` or an L axis of the bindings finds.
  std::vector<std::string> numbered_by_bindings() const;
  static Message why_missing(const io::Source& numbered, const std::string& id);
  std::vector<std::string> layers_unasked(const std::vector<std::string>& ids) const;
  std::vector<UnknownTensor> tensors_beside_bindings(const std::string& id) const;
  bool gives_head_count(const Settings& settings, const NamedTensors& parts) const;
  void require_no_input() const;
  void require_known_layers() const;
};

} // namespace mha
