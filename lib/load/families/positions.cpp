#include <mha/load/families/positions.hpp>

#include <mha/files/text.hpp>
#include <mha/load/families/config_keys.hpp>
#include <mha/maths/functions.hpp>
#include <mha/system/one_of.hpp>
#include <mha/system/parse.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace mha::naming {

namespace {

/// Reads rope_scaling, or rope_parameters, which replaces it in later files.
class RopeConfig {
public:
  /// `scaled`: whether rope_scaling also holds for this layer.
  RopeConfig(const LayerReading& to, std::string_view layer_type, bool scaled = true)
      : to_(to),
        layer_type_(layer_type.empty() ? own_layer_type() : std::string(layer_type)),
        scaled_(scaled) {}

  /// Whether each kind of layers has its own values.
  bool is_by_layer_type() const { return !layer_type_.empty(); }
  /// Throws Error if each kind of layers has its own values and the kind of this layer is unknown.
  void require_layer_type() const {
    if (layer_type_ == unknown)
      fail("{}: config.json's rope_parameters are one object for each kind of layers, and no "
           "layer_types give the kind of this layer",
           to_.group().contents->name);
  }

  /// Throws Error if the two objects differ: Transformers reads only one of them.
  void require_one() const {
    std::map<std::string, std::string> old_keys, new_keys;
    for (const auto& [key, value] : *to_.group().config) {
      const std::string name = own_name(key);
      if (name.starts_with("rope_scaling.")) old_keys[name.substr(13)] = value;
      if (name.starts_with("rope_parameters.")) new_keys[name.substr(16)] = value;
    }
    if (old_keys.empty() || new_keys.empty()) return;
    for (const auto& [key, value] : new_keys)
      if (const auto other = old_keys.find(key); other == old_keys.end() || other->second != value)
        fail("{}: config.json has rope_scaling and rope_parameters, which differ in {}: remove one "
             "of the two",
             to_.group().contents->name, key);
  }
  std::optional<std::string> text(std::string_view key) const {
    std::optional<std::string> first;
    for (const std::string& name : names(key))
      if (std::optional<std::string> value = to_.group().configured(name); !first) first = value;
    return first;
  }
  std::optional<double> number(std::string_view key) const {
    std::optional<double> first;
    for (const std::string& name : names(key))
      if (const std::optional<double> value = to_.number({name}); !first) first = value;
    return first;
  }
  /// Marks keys that repeat a value of rope_parameters as known.
  void know_same(std::string_view key, const std::string& value) const {
    for (const auto& [name, other] : *to_.group().config)
      if (own_name(name) == key && other == value) to_.group().has_key(key);
  }
  /// Marks all keys as known, because other layers of the model use them.
  void know_all() const {
    for (const auto& [key, value] : *to_.group().config)
      if (const std::string name = own_name(key);
          name.starts_with("rope_scaling.") || name.starts_with("rope_parameters."))
        to_.group().has_key(name);
  }

  /// For code with a fixed base, marks keys with the same value as known.
  void know_base(double base) const {
    for (const auto& [key, value] : *to_.group().config)
      if (const std::string name = own_name(key); name.starts_with("ro"))
        if ((name.ends_with("rope_theta") && parse_number<double>(value) == base) ||
            (name.ends_with("type") && value == "default"))
          to_.group().has_key(name);
  }

  /// Marks the keys for kinds of layers that the model does not have as known; for a lone layer,
  /// those for all other kinds.
  void know_other_kinds() const {
    const Group& group = to_.group();
    for (const auto& [key, value] : *group.config) {
      const std::string name = own_name(key);
      if (!name.starts_with(parameters)) continue;
      const std::size_t dot = name.find('.', parameters.size());
      if (dot == std::string::npos) continue;
      const std::string kind = name.substr(parameters.size(), dot - parameters.size());
      if (kind != layer_type_ && (!group.outline || !has_layers_of(kind))) group.has_key(name);
    }
  }

private:
  static constexpr std::string_view parameters = "rope_parameters.", unknown = "?";

  static std::string own_name(std::string_view key) {
    for (std::string_view section : text_sections)
      if (key.starts_with(section)) key.remove_prefix(section.size());
    return std::string(key);
  }
  /// The kind of this layer, if rope_parameters are one object for each kind; otherwise "". One
  /// object alone, with a base, is that of all layers where no layer_types name others.
  std::string own_layer_type() const {
    const Group& group = to_.group();
    std::set<std::string> kinds;
    for (const auto& [key, value] : *group.config)
      for (const std::string_view kind : {"full_attention", "sliding_attention"})
        if (own_name(key).starts_with(fmt::format("rope_parameters.{}.", kind)))
          kinds.emplace(kind);
    if (kinds.empty()) return "";
    const auto types = group.configured("layer_types");
    if (!types && kinds.size() == 1 &&
        group.configured(fmt::format("rope_parameters.{}.rope_theta", *kinds.begin())))
      return *kinds.begin();
    const auto layer = group.number();
    return types && layer ? element(*types, *layer).value_or(std::string(unknown))
                          : std::string(unknown);
  }
  bool has_layers_of(std::string_view kind) const {
    const std::optional<std::string> types = to_.group().configured("layer_types");
    std::size_t layer = 0;
    while (const auto type = types ? element(*types, layer++) : std::nullopt)
      if (*type == kind) return true;
    return !types;
  }
  /// The keys to read, in order. rope_parameters with an object for each kind of layers have no
  /// other values.
  std::vector<std::string> names(std::string_view key) const {
    std::vector<std::string> list{layer_type_.empty()
                                      ? fmt::format("rope_parameters.{}", key)
                                      : fmt::format("rope_parameters.{}.{}", layer_type_, key)};
    if (scaled_ || layer_type_.empty()) list.push_back(fmt::format("rope_scaling.{}", key));
    return list;
  }
  const LayerReading& to_;
  std::string layer_type_;
  bool scaled_;
};

/// The kinds of rope_scaling in config.json; "none" means without scaling.
struct ScalingName {
  std::string_view config, setting;
};
constexpr ScalingName scaling_names[]{
    {"default", "none"}, {"linear", "linear"},     {"llama3", "llama3"}, {"dynamic", "dynamic"},
    {"yarn", "yarn"},    {"longrope", "longrope"}, {"su", "longrope"}, // Phi-3's first files
    {"mrope", "none"}, // Qwen2-VL: the sections alone
};

/// Puts a list such as "1.0,1.08" as a tensor under a canonical name.
void put_factors(LayerReading& to, const RopeConfig& config, std::string_view key,
                 const char* canonical) {
  const std::optional<std::string> list = config.text(key);
  if (!list) return;
  std::vector<double> factors;
  for (std::size_t i = 0; std::optional<std::string> text = element(*list, i); ++i) {
    const auto factor = parse_number<double>(*text);
    if (!factor) fail("config.json: {} holds '{}': a list of numbers expected", key, *text);
    factors.push_back(*factor);
  }
  to.parts[canonical] = {Tensor::of<double>({factors.size()}, factors),
                         fmt::format("config.json: {}", key)};
}

/// Takes longrope's divisors.
void take_factors(LayerReading& to, const RopeConfig& config) {
  put_factors(to, config, "short_factor", "rope_short_factor");
  put_factors(to, config, "long_factor", "rope_long_factor");
  use_gguf_divisors(to);
}

/// Sets the trained length and the factor by which sequences become longer.
void set_lengths(LayerReading& to, const RopeConfig& config, std::string_view kind) {
  const std::optional<double> longest = to.positive_number({"max_position_embeddings"});
  std::optional<double> original = config.number("original_max_position_embeddings");
  if (!original) original = to.positive_number({"original_max_position_embeddings"});
  std::optional<double> factor = config.number("factor");
  // Phi-3's factor is the ratio of the two lengths; yarn's, where none is given.
  if (original && longest && *original > 0 && (kind == "longrope" || (kind == "yarn" && !factor))) {
    const double ratio = *longest / *original;
    if (factor && *factor != ratio)
      to.warn(message("config.json's rope_scaling has factor {}; the ratio of the two lengths, "
                      "{}, is computed with; <rope_factor> {} computes with the factor",
                      *factor, ratio, *factor));
    factor = ratio;
  }
  if (kind == "dynamic" || (kind != "llama3" && !original)) original = longest;
  if (!factor)
    fail("{}: config.json's rope_scaling is {} and has no factor; set <rope_scaling>, none for no "
         "scaling",
         to.group().contents->name, kind);
  to.set("rope_factor", fmt::format("{}", *factor), "config.json");
  if (!original && to.group().configured("model_type"))
    fail("{}: config.json's rope_scaling is {} and has no original_max_position_embeddings, nor "
         "does config.json have max_position_embeddings; set <rope_scaling>",
         to.group().contents->name, kind);
  if (original) to.set("rope_original_length", fmt::format("{}", *original), "config.json");
}

/// Hunyuan's dynamic scaling by alpha, whatever the text's length: base · alpha^(d / (d − 2)), d
/// the width of a head. Its other members have no effect. Returns whether there is an alpha.
bool take_alpha(LayerReading& to, const RopeConfig& config, std::string_view type) {
  const std::optional<double> alpha = config.number("alpha");
  const std::optional<std::size_t> width = to.head_width();
  if (type != "dynamic" || !alpha || !(*alpha > 0) || !width || *width <= 2) return false;
  for (const char* other : {"factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim"})
    config.text(other); // counts as read
  double base = 10000;
  for (const LayerReading::FamilySetting& setting : to.settings)
    if (setting.name == "rope_base") base = parse_number<double>(setting.value).value_or(base);
  const auto d = static_cast<double>(*width);
  to.set("rope_base", fmt::format("{}", base * maths::pow(*alpha, d / (d - 2))), "config.json");
  return true;
}

void set_scaling(LayerReading& to, const RopeConfig& config) {
  for (const char* setting : {"mrope_section", "mrope_interleaved"})
    if (const std::optional<std::string> value = config.text(setting))
      to.set(setting, *value, "config.json");
  std::optional<std::string> type = config.text("rope_type");
  const std::optional<std::string> old_type = config.text("type");
  const auto meaning = [](const std::string& name) -> std::string_view {
    const auto* const known = std::ranges::find(scaling_names, name, &ScalingName::config);
    return known == std::end(scaling_names) ? std::string_view(name) : known->setting;
  };
  if (type && old_type && meaning(*type) != meaning(*old_type))
    to.warn(fmt::format("config.json's rope_scaling has rope_type {} and type {}: the first "
                        "counts, as in Transformers",
                        io::shown(*type), io::shown(*old_type)));
  if (!type) type = old_type;
  if (to.option("rope_scaling")) return;
  const auto refuse = [&](std::string_view why) {
    fail("{}: config.json's rope_scaling {}; set <rope_scaling>, none for no scaling",
         to.group().contents->name, why);
  };
  if (!type && config.text("factor")) refuse("has a factor and no type");
  const std::optional<std::string> scaling = to.group().configured("rope_scaling");
  if (!type && scaling && *scaling != "{}")
    refuse(fmt::format("is '{}', not an object with a type", io::shown(*scaling)));
  if (!type) return;
  if (*type == "llama3")
    for (const char* key :
         {"low_freq_factor", "high_freq_factor", "original_max_position_embeddings"})
      if (!config.text(key)) refuse(fmt::format("is llama3 and has no {}", key));
  if (*type == "longrope" || *type == "su")
    for (const char* key : {"short_factor", "long_factor"})
      if (!config.text(key)) refuse(fmt::format("is {} and has no {}", *type, key));
  const auto* const kind = std::ranges::find(scaling_names, *type, &ScalingName::config);
  if (kind == std::end(scaling_names))
    fail("{}: rope_scaling '{}' is not supported: linear, llama3, dynamic, yarn and longrope are; "
         "<rope_scaling> none computes without it",
         to.group().contents->name, *type);
  if (kind->setting == "none" || take_alpha(to, config, *type)) return;
  to.set("rope_scaling", kind->setting, "config.json");
  if (kind->setting == "linear") {
    const std::optional<std::string> factor = config.text("factor");
    if (!factor) refuse("is linear and has no factor");
    to.set("rope_factor", *factor, "config.json");
  } else {
    set_lengths(to, config, kind->setting);
  }
  for (const auto& [setting, key] : {std::pair("rope_low_freq_factor", "low_freq_factor"),
                                     {"rope_high_freq_factor", "high_freq_factor"},
                                     {"rope_beta_fast", "beta_fast"},
                                     {"rope_beta_slow", "beta_slow"},
                                     {"rope_truncate", "truncate"},
                                     {"rope_mscale", "mscale"},
                                     {"rope_mscale_all_dim", "mscale_all_dim"},
                                     {"rope_attention_factor", "attention_factor"}})
    if (const std::optional<std::string> value = config.text(key))
      to.set(setting, *value, "config.json");
  if (kind->setting == "longrope") take_factors(to, config);
}

/// Ministral 3 and Mistral Large 3 multiply the query at position p by 1 + β ln(1 + ⌊p / length⌋).
void set_temperature(LayerReading& to, const RopeConfig& config) {
  const double beta = config.number("llama_4_scaling_beta").value_or(0);
  if (beta == 0) return;
  std::optional<double> length = config.number("original_max_position_embeddings");
  if (!length) length = to.positive_number({"original_max_position_embeddings"});
  if (!length)
    fail("{}: config.json has llama_4_scaling_beta and no original_max_position_embeddings",
         to.group().contents->name);
  to.set("temperature", fmt::format("{}", beta), "config.json");
  to.set("temperature_length", fmt::format("{}", *length), "config.json");
}

/// Sets the family's base, with a warning if the model is not identified: the bases of a family's
/// models differ.
void take_own_base(LayerReading& to, const Rotary& rotary) {
  if (rotary.base != 10000) to.set("rope_base", fmt::format("{}", rotary.base));
  const bool is_named = to.group().configured("model_type").has_value();
  if (!is_named && !rotary.base_keys.empty() && to.group().contents->format != "gguf" &&
      !to.option("rope_base") && to.option("rope") != "none")
    to.warn(message("rotary embedding with base {}, as no config.json gives the model_type or its "
                    "rope_theta; <rope_base> or <config> chooses",
                    rotary.base));
}

} // namespace

void set_rotary(LayerReading& to, const Rotary& rotary) {
  const RopeConfig config(to, rotary.layer_type, rotary.scaled);
  config.require_layer_type();
  const std::vector<std::string_view> all_base_keys{"rope_theta", "rotary_emb_base"},
      all_part_keys{"partial_rotary_factor", "rotary_pct", "rope_pct"};
  // GGUF has one name for each setting, whatever the family.
  config.require_one();
  const bool any = !to.group().configured("model_type") || to.group().contents->format == "gguf";
  const bool of_all_layers = is_one_of("rope_theta", rotary.base_keys);
  const bool fixed = rotary.fixed && !any;
  if (!to.set_from_config("rope", {"rope"})) to.set("rope", rotary.style);
  const std::optional<std::string> base = fixed ? std::nullopt : config.text("rope_theta");
  if (fixed)
    config.know_base(rotary.base);
  else if (base)
    to.set("rope_base", *base, "config.json"), config.know_same("rope_theta", *base);
  else if (!to.set_from_config("rope_base",
                               Keys(any && of_all_layers ? all_base_keys : rotary.base_keys)))
    take_own_base(to, rotary);

  if (rotary.own_pairs) return config.know_other_kinds();
  // Rotated dimensions: their number, or their part of a head, cut off as Python's int() does.
  const std::string_view dims_key = any ? "rotary_dim" : rotary.dims_key;
  if (const auto dims = dims_key.empty() ? std::nullopt : to.number({dims_key})) {
    // Transformers rotates the first 0 dimensions: none.
    if (*dims == 0)
      to.set("rope", "none", "config.json: rotary_dim");
    else
      to.set_from_config("rope_dims", {dims_key});
  } else {
    std::optional<double> part = fixed ? std::nullopt : config.number("partial_rotary_factor");
    const std::optional<double> other = to.number(Keys(any ? all_part_keys : rotary.part_keys));
    if (!part) part = other;
    const std::optional<std::size_t> width = to.head_width();
    if (part && !(*part >= 0 && *part <= 1))
      fail("{}: config.json has {} for the rotated part of a head: 0 to 1 expected",
           to.group().contents->name, *part);
    if (width && std::floor(static_cast<double>(*width) * part.value_or(rotary.part)) == 0) {
      to.set("rope", "none", "config.json: partial_rotary_factor");
      return;
    }
    if (width && part.value_or(rotary.part) != 1)
      to.set(
          "rope_dims",
          fmt::format("{}", std::floor(static_cast<double>(*width) * part.value_or(rotary.part))),
          part ? "config.json" : "");
    if (!part && rotary.part != 1)
      to.warn(message("config.json has no rotated part of a head: {} of it is rotated, as is "
                      "usual; <rope_dims> chooses",
                      rotary.part));
  }
  if (!fixed && (rotary.scaled || config.is_by_layer_type())) set_scaling(to, config);
  // In a whole model, the other layers read their own keys.
  if (config.is_by_layer_type()) config.know_other_kinds();
  if (!rotary.scaled && !to.group().outline) config.know_all();
  set_temperature(to, config);
  check_frequencies(to);
}

void use_gguf_divisors(const LayerReading& to) {
  if (to.group().contents->format != "gguf") return;
  for (const char* name :
       {"rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"})
    if (const io::Entry* const entry = to.group().elsewhere(name)) to.group().use(*entry);
}

void set_no_rotary(LayerReading& to) {
  to.set("rope", "none", "config.json: this layer");
}
void know_rotary(const LayerReading& to) {
  to.number({"rope_theta"});
  if (to.group().contents->format == "gguf") to.number({"rotary_dim"});
  if (!to.group().outline)
    RopeConfig(to, {}).know_all(); // in a whole model, another layer reads them
}

std::optional<double> rope_number(const LayerReading& to, std::string_view key) {
  return RopeConfig(to, {}).number(key);
}

} // namespace mha::naming
