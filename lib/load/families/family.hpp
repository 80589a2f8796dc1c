#pragma once
// Families of models: names of an attention layer's tensors in their checkpoints, and meanings.

#include <mha/files/contents.hpp>
#include <mha/load/assemble.hpp>
#include <mha/load/families/reads.hpp>

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

/// Keys of config.json, of which the first that is there counts.
using Keys = std::span<const std::string_view>;
using Config = std::map<std::string, std::string>;
/// Where a model of several parts says what its text model is, the first that has a key.
inline constexpr std::string_view text_sections[]{"text_config.", "language_config.",
                                                  "llm_config."};
/// The settings that the user chose, by name: they win, and a family may need one (the heads).
using Options = std::map<std::string, std::string, std::less<>>;

struct Description;

/// The tensors of one attention layer, as a family names them: everything that begins with
/// `prefix`.
struct Group {
  std::string prefix;                              ///< "model.layers.0.self_attn."
  std::optional<std::size_t> layer = std::nullopt; ///< its number, where the prefix does not say it
  const io::Contents* contents = nullptr;
  const Config* config = nullptr; ///< config.json, flattened; never null
  /// What was asked for; one of all layers of a file, or null.
  std::shared_ptr<Reads> reads = nullptr;
  /// Of a model that the user describes, whose words say everything; else null.
  std::shared_ptr<const Description> description = nullptr;
  /// Large tensors are not read: only names, shapes and settings count.
  bool outline = false;
  /// By the name after the prefix, with dots between its parts: "query.kernel" for
  /// "…/query/kernel:0".
  std::map<std::string, const io::Entry*, std::less<>> tensors;

  bool has(std::string_view name) const { return find(name) != nullptr; }
  const io::Entry* find(std::string_view name) const;
  /// Whether it is one of these tensors.
  bool holds(const io::Entry& entry) const;
  /// The shape of a tensor; () if it is not there.
  Shape shape(std::string_view name) const;
  /// A tensor elsewhere in the file, by its whole name, or nullptr.
  const io::Entry* elsewhere(std::string_view whole_name) const;
  /// The numbers of a tensor of the file; as an outline those of a large one are any.
  Tensor read(const io::Entry& entry) const;
  /// A tensor that is known, and whose numbers are not needed.
  void use(const io::Entry& entry) const;
  /// Whether a tensor with this name after parent(levels) is in the file.
  bool beside(std::string_view name, std::size_t levels = 1) const {
    return elsewhere(parent(levels) + std::string(name)) != nullptr;
  }
  /// The prefix without its last `levels` components: "model.layers.0." for one.
  std::string parent(std::size_t levels = 1) const;
  /// The layer's number in the prefix.
  std::optional<std::size_t> number() const;
  /// Whether one of these words is part of the prefix: "vision" of "vision_tower.", not of
  /// "television.".
  bool within(std::initializer_list<std::string_view> parts) const;
  /// A value of config.json: the first of `keys` that is there. In a model of several parts, the
  /// values of the part that the prefix names (vision_config), else those of text_config before
  /// the others. A size is found under every spelling that it has (config_keys.hpp), those of other
  /// families where none of `keys` is there. Throws Error where two of `keys` say different things.
  std::optional<std::string> configured(Keys keys) const;
  std::optional<std::string> configured(std::initializer_list<std::string_view> keys) const {
    return configured(Keys(keys.begin(), keys.size()));
  }
  std::optional<std::string> configured(std::string_view key) const { return configured({key}); }
  /// A number of config.json; throws Error if it is none.
  std::optional<double> configured_number(Keys keys) const;
  std::optional<double> configured_number(std::initializer_list<std::string_view> keys) const {
    return configured_number(Keys(keys.begin(), keys.size()));
  }
  /// A number of things of config.json: whole, from `least` to 2^53; throws Error if it is none.
  std::optional<std::size_t> configured_count(std::initializer_list<std::string_view> keys,
                                              std::size_t least = 0) const;
  /// A truth value of config.json; throws Error if it is none.
  std::optional<bool> flag(std::initializer_list<std::string_view> keys) const;
  bool is_true(std::initializer_list<std::string_view> keys, bool otherwise = false) const {
    return flag(keys).value_or(otherwise);
  }
  /// `keys`; where config.json has none of them, behind them the other spellings of the sizes among
  /// them, up to the first that it has.
  std::vector<std::string_view> spellings(Keys keys) const;
  std::vector<std::string_view> spellings(std::initializer_list<std::string_view> keys) const {
    return spellings(Keys(keys.begin(), keys.size()));
  }
  /// Whether config.json has the key, if only to say null.
  bool says(std::string_view key) const;
  /// Whether config.json has this very key, and not to say null.
  bool says_value(std::string_view key) const;
  /// The model_types in config.json: of the part that is read, and of the whole where that has
  /// another.
  std::vector<std::string> model_types() const;
  /// Whether config.json's model_type is one of these.
  bool is_model(std::initializer_list<std::string_view> types) const;

private:
  /// Notes that these keys were asked for, under every spelling.
  void ask(Keys keys) const;
  /// Notes the spellings of a section that say another size than `value`, which is read.
  void overrule(std::string_view section, Keys keys, const std::vector<std::string_view>& spelt,
                const std::string& value) const;
};

struct FamilyRow;

enum class NormKind : std::uint8_t { unknown, none, layer, rms, affine };

/// The normalisation before attention, for input_norm = checkpoint.
struct InputNormalisation {
  NormKind kind = NormKind::unknown;
  std::string file;   ///< what holds it, for messages
  std::string module; ///< "model.layers.0.input_layernorm"
  std::optional<io::Entry> weight, bias;
  bool one_plus = false; ///< the file holds w, the layer multiplies by 1 + w
  bool needs_weight = true;
};

/// A tensor of a layer's kind that is not computed, by its name in tensors_of_kinds().
struct TensorOfKind {
  std::string name;
  io::Entry entry;
  std::string source; ///< "data/mixtral: model.layers.0.block_sparse_moe.gate.weight"
};

/// What a family makes of a group: canonical tensors, the family's settings, remarks.
class LayerReading {
public:
  LayerReading(const Group& group, const FamilyRow& family, const Options& options)
      : group_(group), family_(family), options_(options) {}

  /// A tensor as it is, under a canonical name; nothing happens if the group does not have it.
  void take(std::string_view canonical, std::string_view name);
  /// A tensor made by the family (a part of a fused weight).
  void put(std::string_view canonical, Tensor tensor, std::string_view name);
  /// The same of what the file stores as `stored`.
  void put(std::string_view canonical, Tensor tensor, const io::Entry& stored);
  /// A tensor of the group, read; throws Error if it is not there.
  Tensor read(std::string_view name) const;
  /// A tensor elsewhere in the file, by its whole name, under a canonical name.
  void take_elsewhere(std::string_view canonical, std::string_view whole_name);

  /// A setting of the family; `origin` says where it comes from, "" = the family's names.
  void set(std::string_view setting, std::string_view value, std::string_view origin = "");
  /// A setting from config.json, if one of the keys is there and not null; whether it was.
  bool set_from_config(std::string_view setting, Keys keys);
  bool set_from_config(std::string_view setting, std::initializer_list<std::string_view> keys) {
    return set_from_config(setting, Keys(keys.begin(), keys.size()));
  }
  /// A number of config.json; throws Error if it is none.
  std::optional<double> number(Keys keys) const { return group_.configured_number(keys); }
  std::optional<double> number(std::initializer_list<std::string_view> keys) const {
    return group_.configured_number(keys);
  }
  /// A number of config.json above 0; throws Error if it is none.
  std::optional<double> positive_number(std::initializer_list<std::string_view> keys) const;
  bool is_true(std::initializer_list<std::string_view> keys, bool otherwise = false) const {
    return group_.is_true(keys, otherwise);
  }
  /// A setting that the user chose.
  std::optional<std::string> option(std::string_view setting) const;
  /// num_heads or num_kv_heads, as the user or the family has set it.
  std::optional<std::size_t> count(std::string_view setting) const;
  /// The width of a head, from the tensors taken so far and the heads.
  std::optional<std::size_t> head_width() const;

  /// The norm's tensors, of which nullptr is none.
  void take_norm(const io::Entry* weight, const io::Entry* bias);
  void set_post_norm() { norm.kind = NormKind::none; }

  void note(Message text) { notes.emplace_back(std::move(text)); }
  /// A doubt that the user must settle.
  void warn(Message text) { notes.push_back(warning(std::move(text))); }
  /// Throws Error where one of the group's tensors belongs to a computation that is not supported.
  void refuse(std::initializer_list<std::string_view> names, std::string_view what) const;
  /// A note where a tensor is a buffer that looks like something else.
  void pass_over(std::initializer_list<std::string_view> names, std::string_view what);
  /// A warning that a tensor of the group is not taken, and why.
  void pass_over_with_warning(std::string_view name, std::string_view why);
  /// A warning about a square matrix, of which nothing but its names tells how it lies.
  void note_square(std::string_view canonical, std::string_view name, std::string_view taken,
                   std::string_view otherwise, std::string_view choose);
  /// What begins messages: "data/llama: model.layers.0.self_attn.q_proj.weight".
  std::string source_of(std::string_view name) const;
  std::string source_of(const io::Entry& entry) const;
  const Group& group() const { return group_; }

  struct FamilySetting {
    std::string name, value, origin;
    std::string key = {}; ///< of config.json, where it is its value as it stands there
  };
  NamedTensors parts;
  std::vector<FamilySetting> settings;
  /// What belongs to kinds of layers that are not computed.
  std::vector<TensorOfKind> of_kinds;
  std::vector<Note> notes;
  InputNormalisation norm;

private:
  const Group& group_;
  const FamilyRow& family_;
  const Options& options_;
};

/// What is known of a family before its file is parsed.
struct FamilyRow {
  std::string_view name;  ///< for --naming: "llama"
  std::string_view title; ///< for people: "LLaMA"
  /// The model_types of config.json whose attention this computes rightly, separated by spaces; a
  /// layer of another model is refused. "*": the tensors say everything, whatever the model.
  std::string_view models;
  /// Names of tensors, after the prefix, separated by spaces; the prefix is what is before them. A
  /// group without one of `needs` is none; "a|b" is one of the two, and # stands for a number.
  std::string_view needs;
  /// Other names that it knows.
  std::string_view knows;
  /// Presents the layers of a file under other names before they are looked for, where layers share
  /// their weights; nullptr: as they are. Whether it changed anything.
  bool (*present)(io::Contents& file, const Config& config) = nullptr;
  /// What blocks have beside attention and the whole model's parts, by names below their numbers.
  /// Without a model_type, other tensors in a block say that it is another family's.
  std::string_view beside = {};
  /// The model_types whose whole model it describes; "": none, "*": any.
  std::string_view whole_models = {};
  /// When a group with these names is of it (families/condition.hpp); "": always. Its tests are
  /// functions.
  std::string_view recognised = {};
  std::string_view text = {};     ///< its file (families/NAME.json); "": a user's description
  const JsonTree* tree = nullptr; ///< of a user's file
  /// What layers with several mixers call them: "self_attn=attn mamba=ssm".
  std::string_view sublayers = {};
};

/// Whether a group of a family's tensors is of it.
bool is_of(const FamilyRow& family, const Group& group);
/// Reads a layer as the group's description says, else the family's file.
void read_layer(const FamilyRow& family, const Group& group, LayerReading& to);
/// The tensors alone of a layer that the user describes, which are held against each other.
void read_described_tensors(const Group& group, LayerReading& to);
/// Whether the family says what is around attention.
bool has_whole_model(const FamilyRow& family);
/// The model_types whose whole model it describes; "": any.
std::string_view whole_models_of(const FamilyRow& family);
/// What is said of the whole model that the layer is of. Throws Error where it is not computed.
std::shared_ptr<const Description> model_of(const FamilyRow& family, const Group& group);
/// What is before a block's number in a family's names, below the model, but for a case that says
/// otherwise.
std::string layers_of(const FamilyRow& family);

/// All families, the more particular before the more general.
std::span<const FamilyRow* const> families();
/// By name; throws Error with the choices and "did you mean".
const FamilyRow& family_named(std::string_view name);

/// A layer found in a file.
struct Found {
  std::string id; ///< "0", "decoder.3.cross"; "" for a lone layer without a number
  Group group;
  const FamilyRow* family = nullptr;
  bool is_chosen = false;    ///< the user said the family
  std::string stranger = {}; ///< a tensor of another layer of the file that no family here has
};

/// The layers that the contents hold, in the file's numbering. `only`: the family that the user
/// chose. Ids are numbers where these tell the layers apart, else "encoder.0", "decoder.0",
/// "decoder.0.cross", else the whole prefix.
std::vector<Found> find_layers(const io::Contents& contents, const Config& config,
                               const FamilyRow* only = nullptr);

/// The number in a prefix or id: "model.layers.12.self_attn." → 12, "encoder/layer_3/" → 3.
std::optional<std::size_t> layer_number(std::string_view prefix);

} // namespace mha::naming
