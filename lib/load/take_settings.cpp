// Applies the settings of a layer: those in files, then options; and the norm of its input, which
// they decide.

#include <mha/load/layer_source.hpp>

#include <mha/files/text.hpp>
#include <mha/layer/names.hpp>
#include <mha/naming/spelling.hpp>
#include <mha/naming/tensor_names.hpp>
#include <mha/system/characters.hpp>
#include <mha/system/named.hpp>
#include <mha/system/one_of.hpp>
#include <mha/system/words.hpp>

#include <algorithm>
#include <map>
#include <set>

namespace mha {

namespace {

/// Objects in which people keep a layer's settings; those in other objects ("norm.scale") belong to
/// something else.
constexpr std::string_view objects_of_settings[]{
    "args",           "attention", "attn",       "config",   "hparams",
    "layer",          "layers",    "meta",       "metadata", "mha",
    "model",          "options",   "parameters", "params",   "hyperparameters",
    "self_attention", "self_attn", "settings"};

bool holds_settings(std::string_view object) {
  return is_one_of(object, objects_of_settings) || is_number(object);
}

/// A value in a file, at the top or in an object: "causal", "config.causal".
struct FileSetting {
  const io::Contents& file;
  std::string_view name, value;

  bool nested() const { return name.find('.') != std::string_view::npos; }
  std::string_view last() const { return last_part(name); }
  /// The setting by its name or a synonym; "": it is not one.
  std::string setting() const {
    for (std::string_view at = name;;) {
      if (find_setting(at)) return std::string(at); // "rope.base" is one
      if (std::string same = same_setting(at); !same.empty()) return same;
      const std::size_t dot = at.find('.');
      if (dot == std::string_view::npos || !holds_settings(at.substr(0, dot))) return "";
      at.remove_prefix(dot + 1);
    }
  }
};

/// Whether a value is for this layer: "layers.3.causal" is only for layer 3.
bool is_of(const FileSetting& given, const std::string& id) {
  const std::optional<std::size_t> number = naming::layer_number(given.name);
  return !number || id.empty() || *number == number_of(id);
}

/// The prefixes of settings that belong to the layers of the ONNX graph that the file was converted
/// from: their family reads them.
std::set<std::string_view> prefixes_of_graph(const io::Contents& file) {
  constexpr std::string_view mark = ".node";
  std::set<std::string_view> prefixes;
  for (const auto& [name, value] : file.scalars)
    if (name.ends_with(mark))
      prefixes.insert(std::string_view(name).substr(0, name.size() - mark.size()));
  return prefixes;
}

/// Notes a value that is not a setting. A misspelt one at the top is an error; other objects and
/// metadata may hold anything.
void note_unused(const FileSetting& given, bool knows_heads, std::vector<Note>& notes) {
  const std::string& file = given.file.name;
  const bool anything = given.nested() || given.file.format == "safetensors" ||
                        given.file.format == "pytorch" || given.file.format == "torchscript";
  if (const TensorInfo* tensor = find_tensor_name(given.name); tensor && !anything)
    fail("{}: {} is a tensor ({}), not one value: {} is given", file, given.name,
         shape_text(*tensor), io::shown(std::string(given.value)));
  if (const std::string cure = about_setting(given.last()); !cure.empty()) {
    if (!knows_heads) fail("{}: no setting is called '{}': {}", file, given.name, cure);
    notes.emplace_back(fmt::format("{}: skipped, not a setting: {}", file, given.name));
    return;
  }
  const std::string meant = closest(given.last(), names_of_rows(settings_table()));
  if (given.nested() && find_setting(given.last()))
    notes.push_back(warning(fmt::format("{}: skipped, as part of something else: {}; a layer's "
                                        "settings are at the top or in an "
                                        "object called config",
                                        file, io::shown(std::string(given.name)))));
  else if (!meant.empty() && anything)
    notes.push_back(warning(message("{}: skipped, not a setting: {}; is it '{}'?{}", file,
                                    io::shown(std::string(given.name)), meant, names_hint)));
  else if (!meant.empty())
    fail("{}: no setting is called '{}'; did you mean '{}'?{}", file, given.name, meant,
         names_hint);
  else if (given.file.format != "safetensors")
    notes.emplace_back(fmt::format("{}: skipped, not a setting: {}", file, given.name));
}

/// 1 + w in float64, because bfloat16 has no 1 + 1/256.
Tensor one_plus(const Tensor& weight) {
  Tensor sum = copy_of(view_of(convert(weight, DType::f64)));
  for (double& w : sum.as_mutable<double>()) w += 1;
  return sum;
}

} // namespace

/// Whether a setting or a tensor per head gives the number of heads.
bool OpenedFiles::gives_head_count(const Settings& settings, const NamedTensors& parts) const {
  const auto names_heads = [](std::string_view name) {
    const SettingInfo* info = find_setting(name);
    return (info && info->name == "num_heads") || same_setting(name) == "num_heads";
  };
  const auto gives_count = [&](const io::Contents& file) {
    return std::ranges::any_of(file.scalars, [&](const auto& entry) {
      return names_heads(FileSetting{file, entry.first, entry.second}.setting());
    });
  };
  return settings.num_heads > 0 || std::ranges::any_of(contents, gives_count) ||
         std::ranges::any_of(request.settings,
                             [&](const auto& entry) { return names_heads(entry.first); }) ||
         std::any_of(parts.begin(), parts.end(), [](const auto& part) {
           const std::string& name = part.first;
           const std::size_t rank = part.second.tensor.rank();
           return (name.starts_with("W_") && rank == 3) || (!find_tensor_name(name) && rank >= 3);
         });
}

/// Applies files' settings, then options. A later one wins over an earlier one and over the model's
/// family, with a note where they differ.
void LayerSource::add_settings(const std::string& id, Settings& settings, const NamedTensors& parts,
                               Identities& identities, std::vector<Note>& notes) const {
  const bool knows_heads = gives_head_count(settings, parts);
  const auto is_layer = [&](std::size_t number) {
    return listing.empty() || std::ranges::any_of(listing, [&](const LayerListing& layer) {
             return layer.id.empty() || number_of(layer.id) == number;
           });
  };
  const auto overrule = [&](const std::string& name, const std::string& value,
                            const std::string& origin) {
    const SettingInfo* info = find_setting(name);
    const auto before = info ? settings.origins.find(info->name) : settings.origins.end();
    const bool was_set = before != settings.origins.end();
    const std::string old = was_set ? info->get(settings) : "",
                      from = was_set ? before->second : "";
    set(settings, name, value, origin);
    if (!was_set || info->get(settings) == old) return;
    const std::string what = is_given(origin) ? origin : fmt::format("{}: {}", origin, info->name);
    notes.push_back(fmt::format("{} {} wins over {} ({})", what, info->get(settings), old, from));
  };
  for (const io::Contents& file : contents) {
    // The only setting that may be a list of numbers.
    if (const io::Entry* entry = file.find("mrope_section"); entry && count_of(entry->shape) == 3) {
      const Tensor list = entry->read();
      overrule(entry->name,
               fmt::format("{},{},{}", value_at(list, 0), value_at(list, 1), value_at(list, 2)),
               file.name);
    }
    // A family reads the config of a checkpoint and the values of a graph.
    if (file.format == "checkpoint" || file.format == "onnx") continue;
    const std::set<std::string_view> of_graph = prefixes_of_graph(file);
    for (const auto& [name, value] : file.scalars) {
      const FileSetting given{file, name, value};
      if (given.nested() && of_graph.contains(given.name.substr(0, given.name.rfind('.'))))
        continue;
      if (const auto number = naming::layer_number(name); number && !is_layer(*number)) {
        notes.push_back(warning(fmt::format("{}: {} is of layer {}, which does not exist",
                                            file.name, io::shown(name), *number)));
        continue;
      }
      if (!is_of(given, id)) continue;
      if (const std::string projection = projection_as_identity(name, value); !projection.empty())
        identities.insert(projection);
      else if (const std::string setting = given.setting(); !setting.empty())
        overrule(setting, value, file.name);
      else if (label_name(name).empty())
        note_unused(given, knows_heads, notes);
    }
  }
  for (const auto& [name, value] : request.settings) {
    const SettingInfo* info = find_setting(name);
    overrule(name, value, setting_in_words(info ? info->name : name, request.wording));
  }
}

/// Turns input_norm = checkpoint into layer or rms with the layer's own weights. Without it, a
/// model that normalises before attention gets a note.
void LayerSource::add_norm(const naming::InputNormalisation& norm, NamedTensors& parts,
                           Settings& settings, LoadedLayer& to) const {
  const bool before = norm.kind != naming::NormKind::unknown && norm.kind != naming::NormKind::none;
  if (settings.input_norm != InputNorm::checkpoint) {
    // Without the norm's weights the file is a layer taken out of a model, and X may be normalised.
    const bool has_weight = norm.weight || !norm.needs_weight;
    if (before && has_weight && !settings.origins.count("input_norm") && parts.count("X"))
      to.notes.push_back(warning(message(
          "X must be the normalised input (the output of {}), or give <input_norm> checkpoint",
          norm.module)));
    return;
  }
  if (norm.kind == naming::NormKind::unknown) return; // assembling the layer throws
  const std::string origin = fmt::format("{}: {}", settings.origins["input_norm"], to.naming);
  if (!before) {
    set(settings, "input_norm", "none", origin);
    if (!request.for_texts)
      to.notes.push_back(
          fmt::format("{} normalises after attention: input_norm checkpoint is none", to.naming));
    return;
  }
  set(settings, "input_norm",
      norm.kind == naming::NormKind::rms      ? "rms"
      : norm.kind == naming::NormKind::affine ? "affine"
                                              : "layer",
      origin);
  if (!norm.weight && norm.needs_weight && !parts.count("norm.weight"))
    fail("input_norm is checkpoint, but {} has no {}.weight; give <norm.weight=FILE>, or layer or "
         "rms",
         norm.file, norm.module);
  const auto take = [&](const char* name, const std::optional<io::Entry>& entry) {
    if (!entry || parts.count(name)) return; // a given one wins
    Tensor tensor = entry->read();
    if (norm.one_plus && &entry == &norm.weight) tensor = one_plus(tensor);
    parts[name] = {std::move(tensor), fmt::format("{}: {}", norm.file, entry->name)};
  };
  take("norm.weight", norm.weight), take("norm.bias", norm.bias);
}

/// A projection that is bound to the identity wins over files.
void LayerSource::take_identities(const std::string& id, NamedTensors& parts,
                                  Identities& identities) const {
  for (const io::Source& binding : identity_bindings) {
    if (request.for_texts && !binds(binding, id)) continue;
    const std::string name = projection_as_identity(binding);
    if (const auto part = parts.find(name); part != parts.end()) {
      if (part->second.bound)
        fail("{} is bound twice: {} and {}", name, part->second.source, binding.text);
      parts.erase(part);
    }
    identities.insert(name);
  }
}

namespace {

/// Whether a name has a layer's number, "h.0.attn.weight": such a file has the weights of other
/// layers.
bool is_of_numbered_layer(std::string_view name) {
  const std::vector<std::string_view> parts = words_of<std::string_view>(name, ".");
  return parts.size() > 1 && std::ranges::any_of(parts, [](std::string_view part) {
           return !part.empty() &&
                  std::ranges::all_of(part, [](char c) { return c >= '0' && c <= '9'; });
         });
}

} // namespace

/// The other tensors in the file of a projection that is bound by itself: one of them may be what
/// the layer lacks.
std::vector<UnknownTensor> OpenedFiles::tensors_beside_bindings(const std::string& id) const {
  std::map<std::string, std::vector<std::string>> bound; // names of tensors by their file
  std::vector<io::Source> files;
  if (request.for_texts) return {};
  for (const io::Source& binding : bindings) {
    const io::Source source = io::with_layer(binding, id);
    if (!source.memory.empty() || source.raw_shape || !label_name(binding.name).empty()) continue;
    const io::Entry entry = io::bound_entry(source, opened);
    const bool again = bound.contains(source.path);
    bound[source.path].push_back(entry.name);
    const bool is_source = std::ranges::any_of(
        contents, [&](const io::Contents& file) { return file.name == source.path; });
    if (!again && !is_source && is_projection_name(canonical_name(binding.name, false)))
      files.push_back(source);
  }
  std::vector<UnknownTensor> beside;
  for (const io::Source& source : files) {
    const io::Contents& file = opened.open(source.path, source.raw_dtype.has_value());
    if (std::ranges::any_of(
            file.tensors, [](const io::Entry& entry) { return is_of_numbered_layer(entry.name); }))
      continue;
    for (const io::Entry& entry : file.tensors) {
      const std::string name = canonical_name(entry.name, false);
      if ((name.empty() || is_projection_name(name)) &&
          std::ranges::count(bound.at(source.path), entry.name) == 0)
        beside.push_back({file.name, entry.name, entry.shape, entry.dtype, id});
    }
  }
  return beside;
}

} // namespace mha
