#pragma once
// The opened sources of a request, and what their names mean. Only load/ uses it.

#include <mha/files/inputs.hpp>
#include <mha/load/doubts.hpp>
#include <mha/load/families/family.hpp>
#include <mha/load/load.hpp>

namespace mha {

/// The canonical name for a file's or binding's name, without prefixes such as `blocks.0.attn.`;
/// "": it has none. `strict`: throws Error for ambiguous words.
std::string canonical_name(std::string_view name, bool strict);
/// The canonical name of what is bound at `where`; throws Error with suggestions where it has none.
/// `of_stream`: stages of a whole model's layer may also be bound.
std::string bound_name(const std::string& where, const std::string& typed, bool of_stream);
/// The stage of the residual stream that a binding means, "X" for resid_pre; "": it means none.
std::string stream_name(std::string_view name);
/// The label list that a name means: "tokens", "key_tokens", or "".
std::string label_name(std::string_view name);
/// "decoder.3.cross" → 3; 0 where there is no number.
std::size_t number_of(const std::string& id);
bool file_exists(const std::string& path);
/// Whether there is at most one layer, without a number.
bool is_lone(const std::vector<std::string>& ids);

/// The user's sources: files with their layers, single tensors bound to names, and settings.
struct OpenedFiles {
  Request request;
  std::vector<io::Source> bindings;
  std::vector<io::Source> identity_bindings; ///< W_o=identity
  std::vector<io::Contents> contents; ///< of plain sources; not changed once layers are found
  std::vector<io::Contents>
      as_files; ///< under the stored names, where `contents` presents other ones
  naming::Config config;
  naming::Options options; ///< request.settings by their own names
  mutable io::LastOpened
      opened; ///< by a binding: {layer} opens a file for one layer after the other

  void open_sources();
  /// Presents shared weights under the names of every layer that uses them (ALBERT).
  void present_contents();
  /// The layers by `{layer}` or an L axis in the bindings.
  std::vector<std::string> numbered_by_bindings() const;
  static Message why_missing(const io::Source& numbered, const std::string& id);
  std::vector<std::string> layers_unasked(const std::vector<std::string>& ids) const;
  std::vector<UnknownTensor> tensors_beside_bindings(const std::string& id) const;
  bool gives_head_count(const Settings& settings, const NamedTensors& parts) const;
  void require_no_input() const;
  void require_known_layers() const;
};

} // namespace mha
