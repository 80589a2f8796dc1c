#pragma once
// Families of models: how their checkpoints name the tensors of an attention layer, and what these
// and the settings mean.

#include <mha/files/contents.hpp>
#include <mha/load/assemble.hpp>
#include <mha/load/families/reads.hpp>
#include <mha/naming/tensor_names.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace mha {
struct JsonTree;
}

namespace mha::naming {

/// Keys of config.json; the first that it has counts.
using Keys = std::span<const std::string_view>;
using Config = std::map<std::string, std::string>;
/// The sections for the text model in the config.json of a model of several parts; the first that
/// has a key counts.
inline constexpr std::string_view text_sections[]{"text_config.", "language_config.",
                                                  "llm_config."};
/// The settings that the user chose, by name. They win, and a family may need one (the heads).
using Options = std::map<std::string, std::string, std::less<>>;

struct Description;

/// The tensors of one attention layer under a family's names, which all begin with `prefix`.
struct Group {
  std::string prefix;                              ///< "model.layers.0.self_attn."
  std::optional<std::size_t> layer = std::nullopt; ///< its number, if not in the prefix
  const io::Contents* contents = nullptr;
  const Config* config = nullptr; ///< config.json, flattened; never null
  /// Records what is read, for all layers of a file together; may be null.
  std::shared_ptr<Reads> reads = nullptr;
  /// The complete description of the model by the user; otherwise null.
  std::shared_ptr<const Description> description = nullptr;
  /// Large tensors are not read, because only names, shapes and settings are needed.
  bool outline = false;
  /// By the name after the prefix with dots between its parts: "query.kernel" for
  /// "…/query/kernel:0".
  std::map<std::string, const io::Entry*, std::less<>> tensors;

  bool has(std::string_view name) const { return find(name) != nullptr; }
  const io::Entry* find(std::string_view name) const;
  /// Whether an entry is one of these tensors.
  bool holds(const io::Entry& entry) const;
  /// The shape of a tensor; () if the group does not have it.
  Shape shape(std::string_view name) const;
  /// A tensor anywhere in the file, by its whole name, or nullptr.
  const io::Entry* elsewhere(std::string_view whole_name) const;
  /// The numbers of a tensor of the file; in an outline, a large one has arbitrary numbers.
  Tensor read(const io::Entry& entry) const;
  /// Marks a tensor as used without reading its numbers.
  void use(const io::Entry& entry) const;
  /// Whether the file has a tensor with the name parent(levels) + `name`.
  bool beside(std::string_view name, std::size_t levels = 1) const {
    return elsewhere(parent(levels) + std::string(name)) != nullptr;
  }
  /// The prefix without its last `levels` components: "model.layers.0." for one.
  std::string parent(std::size_t levels = 1) const;
  /// The layer's number in the prefix.
  std::optional<std::size_t> number() const;
  /// Whether the prefix has one of these words: "vision" is in "vision_tower.", not in
  /// "television.".
  bool within(std::initializer_list<std::string_view> parts) const;
  /// The value in config.json of the first of `keys` that it has. In a model of several parts, the
  /// section that the prefix names (vision_config) is searched, otherwise text_config before the
  /// rest. A size is found under every spelling (config_keys.hpp), those of other families only if
  /// none of `keys` is there. A key that ends in [] has a list with a value for each layer, of
  /// which this layer's counts. Throws Error if two of `keys` have different values.
  std::optional<std::string> configured(Keys keys) const;
  std::optional<std::string> configured(std::initializer_list<std::string_view> keys) const {
    return configured(Keys(keys.begin(), keys.size()));
  }
  std::optional<std::string> configured(std::string_view key) const { return configured({key}); }
  /// Throws Error if the value is not a number.
  std::optional<double> configured_number(Keys keys) const;
  std::optional<double> configured_number(std::initializer_list<std::string_view> keys) const {
    return configured_number(Keys(keys.begin(), keys.size()));
  }
  /// Throws Error if the value is not a whole number from `least` to 2^53.
  std::optional<std::size_t> configured_count(Keys keys, std::size_t least = 0) const;
  std::optional<std::size_t> configured_count(std::initializer_list<std::string_view> keys,
                                              std::size_t least = 0) const {
    return configured_count(Keys(keys.begin(), keys.size()), least);
  }
  /// Throws Error if the value is not true or false.
  std::optional<bool> flag(std::initializer_list<std::string_view> keys) const;
  bool is_true(std::initializer_list<std::string_view> keys, bool otherwise = false) const {
    return flag(keys).value_or(otherwise);
  }
  /// `keys`, followed, if config.json has none of them, by the other spellings of the sizes among
  /// them, up to the first that config.json has.
  std::vector<std::string_view> spellings(Keys keys) const;
  std::vector<std::string_view> spellings(std::initializer_list<std::string_view> keys) const {
    return spellings(Keys(keys.begin(), keys.size()));
  }
  /// Whether config.json has the key, even with null.
  bool has_key(std::string_view key) const;
  /// Whether config.json has this key, not another spelling, with a value other than null.
  bool config_has(std::string_view key) const;
  /// The model_types in config.json: that of the part that is read, and that of the whole model if
  /// it differs.
  std::vector<std::string> model_types() const;
  /// Whether config.json's model_type is one of these.
  bool is_model(std::initializer_list<std::string_view> types) const;

private:
  /// Records that these keys were asked for, under every spelling.
  void ask(Keys keys) const;
  /// Records the spellings in a section whose size differs from `value`, which is read.
  void overrule(std::string_view section, Keys keys, const std::vector<std::string_view>& spelt,
                const std::string& value) const;
};

struct FamilyRow;

enum class NormKind : std::uint8_t { unknown, none, layer, rms, affine };

/// The normalisation before attention, for input_norm = checkpoint.
struct InputNormalisation {
  NormKind kind = NormKind::unknown;
  std::string file;   ///< for messages
  std::string module; ///< "model.layers.0.input_layernorm"
  std::optional<io::Entry> weight, bias;
  bool one_plus = false; ///< the file holds w, the layer multiplies by 1 + w
  bool needs_weight = true;
};

/// A tensor of a kind of layer that is not computed, with its name in tensors_of_kinds().
struct TensorOfKind {
  std::string name;
  io::Entry entry;
  std::string source; ///< "data/mixtral: model.layers.0.block_sparse_moe.gate.weight"
};

/// Stages that a layer does not compute, and that have to be given.
struct MissingStages {
  std::vector<Stage> stages;
  Message why; ///< with the cure
};

/// A layer as a family reads it from a group: canonical tensors, settings and remarks.
class LayerReading {
public:
  LayerReading(const Group& group, const FamilyRow& family, const Options& options)
      : group_(group), family_(family), options_(options) {}

  /// Takes a tensor unchanged under a canonical name, if the group has it.
  void take(std::string_view canonical, std::string_view name);
  /// Takes a tensor made by the family (a part of a fused weight).
  void put(std::string_view canonical, Tensor tensor, std::string_view name);
  /// The same, made from the file's entry `stored`.
  void put(std::string_view canonical, Tensor tensor, const io::Entry& stored);
  /// Reads a tensor of the group; throws Error if it is missing.
  Tensor read(std::string_view name) const;
  /// Takes a tensor from anywhere in the file, by its whole name, under a canonical name.
  void take_elsewhere(std::string_view canonical, std::string_view whole_name);

  /// Sets a setting; `origin` names its source, "" = the family's names.
  void set(std::string_view setting, std::string_view value, std::string_view origin = "");
  /// Sets a setting from config.json if one of the keys has a value; returns whether one has.
  bool set_from_config(std::string_view setting, Keys keys);
  bool set_from_config(std::string_view setting, std::initializer_list<std::string_view> keys) {
    return set_from_config(setting, Keys(keys.begin(), keys.size()));
  }
  /// A value of config.json; throws Error if it is not a number.
  std::optional<double> number(Keys keys) const { return group_.configured_number(keys); }
  std::optional<double> number(std::initializer_list<std::string_view> keys) const {
    return group_.configured_number(keys);
  }
  /// A value of config.json; throws Error if it is not a number above 0.
  std::optional<double> positive_number(std::initializer_list<std::string_view> keys) const;
  bool is_true(std::initializer_list<std::string_view> keys, bool otherwise = false) const {
    return group_.is_true(keys, otherwise);
  }
  /// A setting that the user chose.
  std::optional<std::string> option(std::string_view setting) const;
  /// num_heads or num_kv_heads, as set by the user or the family.
  std::optional<std::size_t> count(std::string_view setting) const;
  /// The width of a head, from the tensors taken so far and the number of heads.
  std::optional<std::size_t> head_width(const char* W = "W_q") const;

  /// Takes the norm's tensors, either of which may be nullptr.
  void take_norm(const io::Entry* weight, const io::Entry* bias);
  /// Notes what the module of a stored weight returns.
  void note_result(ModuleResult result, const io::Entry& weight);
  void set_post_norm() { norm.kind = NormKind::none; }

  void note(Message text) { notes.emplace_back(std::move(text)); }
  /// Adds a warning that the user must settle.
  void warn(Message text) { notes.push_back(warning(std::move(text))); }
  /// Throws Error if the group has one of these tensors, which belong to an unsupported
  /// computation.
  void refuse(std::initializer_list<std::string_view> names, std::string_view what) const;
  /// Skips tensors with a note, for buffers that look like something else.
  void skip(std::initializer_list<std::string_view> names, std::string_view what);
  /// Skips a tensor of the group with a warning.
  void skip_with_warning(std::string_view name, std::string_view why);
  /// Warns about a square matrix whose orientation only its name suggests.
  void note_square(std::string_view canonical, std::string_view name, std::string_view taken,
                   std::string_view otherwise, std::string_view choose);
  /// The start of messages: "data/llama: model.layers.0.self_attn.q_proj.weight".
  std::string source_of(std::string_view name) const;
  std::string source_of(const io::Entry& entry) const;
  const Group& group() const { return group_; }

  struct FamilySetting {
    std::string name, value, origin;
    std::string key = {}; ///< of config.json, if the value is taken from it unchanged
  };
  NamedTensors parts;
  std::vector<FamilySetting> settings;
  /// Tensors of kinds of layers that are not computed, and of mixtures.
  std::vector<TensorOfKind> of_kinds;
  bool leaves_mixtures = false;      ///< the reader of whole models takes their tensors
  std::vector<ModuleResult> results; ///< of modules that return other than one stage
  std::vector<Note> notes;
  InputNormalisation norm;
  MissingStages missing;

private:
  const Group& group_;
  const FamilyRow& family_;
  const Options& options_;
};

/// The data of a family that is available before its file is parsed.
struct FamilyRow {
  std::string_view name;  ///< for --naming: "llama"
  std::string_view title; ///< for people: "LLaMA"
  /// The model_types of config.json whose attention is computed correctly, separated by spaces; a
  /// layer of another model is refused. "*": any model, because the tensors decide everything.
  std::string_view models;
  /// Names of tensors after the prefix, separated by spaces. A group must have all of `needs`;
  /// "a|b" is one of the two, and # is any number.
  std::string_view needs;
  /// Other names that the family knows.
  std::string_view knows;
  /// Renames the tensors of a file before its layers are looked for, if layers share their weights,
  /// and returns whether it did; nullptr: no renaming.
  bool (*present)(io::Contents& file, const Config& config) = nullptr;
  /// The other parts of blocks and of the whole model, by names below the block's number. Without a
  /// model_type, a block with other tensors belongs to another family.
  std::string_view beside = {};
  /// The model_types whose whole model the file describes; "": none, "*": any.
  std::string_view whole_models = {};
  /// The condition under which a group with these names belongs to the family
  /// (families/condition.hpp); "": always. Its tests are functions.
  std::string_view recognised = {};
  std::string_view text = {};     ///< its file (families/NAME.json); "": a user's description
  const JsonTree* tree = nullptr; ///< of a user's file
  /// The names of mixers in layers with several of them: "self_attn=attn mamba=ssm".
  std::string_view sublayers = {};
};

/// Whether a group of tensors with a family's names belongs to the family.
bool is_of(const FamilyRow& family, const Group& group);
/// Reads a layer by the group's description, if it has one, or by the family's file.
void read_layer(const FamilyRow& family, const Group& group, LayerReading& to);
/// Reads only the tensors of a layer that the user describes, and compares their sizes.
void read_described_tensors(const Group& group, LayerReading& to);
/// Whether the family's file also describes the parts around attention.
bool has_whole_model(const FamilyRow& family);
/// The model_types whose whole model the family's file describes; "": any.
std::string_view whole_models_of(const FamilyRow& family);
/// The description of the whole model that the layer belongs to. Throws Error if it is not
/// computed.
std::shared_ptr<const Description> model_of(const FamilyRow& family, const Group& group);
/// The part of a family's names between the model and a block's number, which cases may override.
std::string layers_of(const FamilyRow& family);

/// All families, the more specific before the more general.
std::span<const FamilyRow* const> families();
/// A family by name; throws Error with the choices and "did you mean".
const FamilyRow& family_named(std::string_view name);

/// A layer found in a file.
struct Found {
  std::string id; ///< "0", "decoder.3.cross"; "" for a lone layer without a number
  Group group;
  const FamilyRow* family = nullptr;
  bool is_chosen = false;          ///< the user chose the family
  std::string foreign_tensor = {}; ///< a tensor in the file of a layer that no family here has
};

/// The layers of a file, in the order of their numbers. `only` is the family that the user chose.
/// Ids are numbers if these distinguish the layers, otherwise "encoder.0", "decoder.0",
/// "decoder.0.cross", or else the whole prefix.
std::vector<Found> find_layers(const io::Contents& contents, const Config& config,
                               const FamilyRow* only = nullptr);

/// The number in a prefix or id: "model.layers.12.self_attn." → 12, "encoder/layer_3/" → 3.
std::optional<std::size_t> layer_number(std::string_view prefix);

} // namespace mha::naming
