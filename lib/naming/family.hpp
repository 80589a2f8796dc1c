#pragma once
// How checkpoints of a model family name an attention layer's tensors, and what they mean.

#include "assemble.hpp"
#include "io/contents.hpp"

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace mha::naming {

using Config = std::map<std::string, std::string>;

/// The tensors of one attention layer, as a family names them: everything that begins with `prefix`.
struct Group {
  std::string prefix;                                  ///< "model.layers.0.self_attn."
  const io::Contents* contents = nullptr;
  const Config* config = nullptr;                      ///< config.json, flattened; never null
  std::map<std::string, const io::Entry*, std::less<>> tensors; ///< by the name after the prefix

  bool has(std::string_view name) const { return tensors.find(name) != tensors.end(); }
  const io::Entry* find(std::string_view name) const;
  /// A tensor elsewhere in the file, by its whole name, or nullptr.
  const io::Entry* elsewhere(std::string_view whole_name) const { return contents->find(whole_name); }
  /// The prefix without its last `levels` components: "model.layers.0." for one.
  std::string parent(std::size_t levels = 1) const;
  /// A value of config.json: the first of `keys` that is there (those inside text_config too).
  std::optional<std::string> configured(std::initializer_list<std::string_view> keys) const;
  /// Whether config.json's model_type is one of these.
  bool is_model(std::initializer_list<std::string_view> types) const;
};

/// What a family makes of a group: canonical tensors, the family's settings, remarks.
class Translation {
public:
  explicit Translation(const Group& group) : group_(group) {}

  /// A tensor as it is, under a canonical name; nothing happens if the group does not have it.
  void take(std::string_view canonical, std::string_view name);
  /// A weight stored (out, in), as nn.Linear does: transposed.
  void take_linear(std::string_view canonical, std::string_view name);
  /// A tensor made by the family (a part of a fused weight).
  void put(std::string_view canonical, Tensor tensor, std::string_view name);
  /// A tensor of the group, read; throws Error if it is not there.
  Tensor read(std::string_view name) const;
  /// A tensor elsewhere in the file, such as the normalisation before the layer, under a canonical name.
  void take_elsewhere(std::string_view canonical, std::string_view whole_name);

  /// A setting of the family; `origin` says where it comes from ("LLaMA names", "config.json").
  void set(std::string_view setting, std::string_view value, std::string_view origin);
  /// A setting from config.json, if one of the keys is there and not null.
  void set_from_config(std::string_view setting, std::initializer_list<std::string_view> keys);
  void note(std::string text) { notes.push_back(std::move(text)); }
  const Group& group() const { return group_; }

  struct FamilySetting {
    std::string name, value, origin;
  };
  Parts parts;
  std::vector<FamilySetting> settings;
  std::vector<std::string> notes;

private:
  std::string source_of(std::string_view name) const;
  const Group& group_;
};

/// One family.
struct Family {
  std::string_view name;  ///< for --naming: "llama"
  std::string_view title; ///< for people: "LLaMA"
  /// The names that it knows, after the prefix, separated by spaces; the prefix is what is before them.
  std::string_view tensors;
  /// Whether a group of such tensors is of this family, by names, shapes and config.json.
  bool (*recognises)(const Group& group);
  /// Canonical, contiguous (in, out) weights, and the settings that the family implies.
  void (*translate)(const Group& group, Translation& translation);
};

/// All families, the more particular before the more general.
std::span<const Family* const> families();
/// By name; throws Error with the choices and "did you mean".
const Family& family_named(std::string_view name);

/// A layer found in a file.
struct Found {
  std::string id; ///< "0", "decoder.3.cross"; "" for a lone layer without a number
  Group group;
  const Family* family = nullptr;
};

/// The layers that the contents hold, in the file's numbering. `only`: one family by name, or "".
/// Ids are numbers where these tell the layers apart, else "encoder.0", "decoder.0", "decoder.0.cross",
/// else the whole prefix.
std::vector<Found> find_layers(const io::Contents& contents, const Config& config, std::string_view only);

/// The number in a prefix or id: "model.layers.12.self_attn." → 12.
std::optional<std::size_t> layer_number(std::string_view prefix);

} // namespace mha::naming
