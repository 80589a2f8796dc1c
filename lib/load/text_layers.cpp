// A whole model's layers for texts: which of them are chosen, and their inputs.

#include <mha/files/text.hpp>
#include <mha/layer/stage_place.hpp>
#include <mha/load/described.hpp>
#include <mha/load/known_models.hpp>
#include <mha/load/layer_source.hpp>
#include <mha/load/leftovers.hpp>
#include <mha/load/model_reader.hpp>
#include <mha/load/read_description.hpp>
#include <mha/load/whole_model.hpp>

#include <mha/formats/folder.hpp>
#include <mha/formats/formats.hpp>
#include <mha/naming/stage_names.hpp>

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <set>

namespace mha {

std::string stream_name(std::string_view name) {
  const std::optional<Stage> stage = find_stage(name);
  if (!stage || !is_stream(*stage)) return "";
  if (is_of_model(*stage))
    fail("{}: {} is of the whole model and cannot be replaced; bind a layer's resid_pre or "
         "resid_post",
         name, name_of(*stage));
  return std::string(*stage == Stage::resid_pre ? "X" : name_of(*stage));
}

/// Throws Error for a binding of an input, because the text makes X.
void OpenedFiles::require_no_input() const {
  for (const io::Source& binding : bindings) {
    const std::string name = canonical_name(binding.name, false);
    if ((name.starts_with("X") || name == "x") && binding.name != "resid_pre")
      fail("{}: the text gives every layer its input; leave {} out, or the text", binding.text,
           binding.name);
  }
}

/// Throws Error for a binding of a missing layer, which would change nothing.
void FoundLayers::require_layers_of_bindings() const {
  const auto require_layer = [&](const io::Source& binding) {
    if (!label_name(binding.name).empty()) return;
    const std::optional<std::size_t> number = naming::layer_number(binding.name);
    if (!number && binding.name.starts_with("layers."))
      fail("{}: a layer's number expected: <layers.0.weights=…>", binding.text);
    const auto is_it = [&](const auto& layer) { return number_of(layer.id) == *number; };
    if (number && std::ranges::none_of(listing, is_it))
      fail("{}: there is no layer {}: the model's layers are {} to {}", binding.text, *number,
           listing.front().id, listing.back().id);
  };
  std::ranges::for_each(bindings, require_layer);
  std::ranges::for_each(identity_bindings, require_layer);
}

namespace {

/// One of the two factors that PEFT adds to a weight.
bool is_of_adapter_alone(std::string_view name) {
  return name.find(".lora_A.") != std::string_view::npos;
}

} // namespace

Message FoundLayers::why_no_model() const {
  for (const io::Contents& file : contents)
    for (const io::Entry& entry : file.tensors)
      if (entry.name.find(".base_layer.") != std::string::npos)
        return fmt::format("{}: {} is a weight below an adapter: merge the adapter into the model "
                           "first (PEFT: merge_and_unload)",
                           file.name, entry.name);
  for (const io::Contents& file : contents)
    for (const io::Entry& entry : file.tensors) {
      refuse_quantised(file.name, entry.name);
      if (is_of_adapter_alone(entry.name))
        return fmt::format("{}: {} is of an adapter, without the model that it changes: merge it "
                           "into its base model first (PEFT: merge_and_unload)",
                           file.name, entry.name);
    }
  for (const io::Contents& file : contents)
    if (const auto type = file.config.find("model_type"); type != file.config.end())
      return message(
          "{}: model_type '{}' is not covered: its layers have no names that are known here; bind "
          "one layer's tensors instead: <X=FILE> <W_q=FILE:TENSOR@OI> …, or describe the model by "
          "<naming> FILE.json<draft naming>",
          file.name, type->second);
  constexpr std::size_t own_tensors = 8; // a layer's own tensors
  for (const io::Contents& file : contents)
    if (file.tensors.size() > own_tensors)
      return message("{}: none of its layers has names that are known here; {}", file.name,
                     or_describe_it);
  return fmt::format("{}: no whole model; a text needs a checkpoint: a folder with config.json and "
                     "the model's tensors",
                     contents.empty() ? "these tensors" : contents.front().name);
}

/// Throws Error where only a checkpoint and its input are given, and its model_type is not covered,
/// or it is only an adapter.
void FoundLayers::require_known_model() const {
  const auto is_input = [](const io::Source& binding) {
    return canonical_name(binding.name, false).starts_with("X");
  };
  if (!std::ranges::all_of(bindings, is_input)) return;
  const auto of_adapter = [](const io::Entry& entry) { return is_of_adapter_alone(entry.name); };
  for (const io::Contents& file : contents)
    if ((file.format == "checkpoint" && file.config.contains("model_type")) ||
        std::ranges::any_of(file.tensors, of_adapter))
      fail("{}", why_no_model());
}

/// Throws Error where only an input was found beside weights of numbered layers with unknown names:
/// attention over the input itself cannot be meant.
void OpenedFiles::require_known_layers() const {
  const auto is_weight = [](const io::Entry& entry) {
    return is_floating(entry.dtype) && (entry.shape.size() == 2 || entry.shape.size() == 3) &&
           naming::layer_number(entry.name) && canonical_name(entry.name, false).empty() &&
           !find_stage(entry.name);
  };
  for (const io::Contents& file : contents)
    if (const auto first = std::ranges::find_if(file.tensors, is_weight);
        file.format != "onnx" && first != file.tensors.end())
      fail(
          "{}: none of its layers has names that are known here (the first weight is {}); bind one "
          "layer's tensors instead: <X=FILE> <W_q=FILE:TENSOR@OI> …, or describe the model by "
          "<naming> FILE.json<draft naming>; W_q=identity takes X itself as the queries",
          file.name, io::shown(first->name));
}

void FoundLayers::open_model() {
  require_no_input();
  const auto checkpoint = std::find_if(contents.begin(), contents.end(), [&](const auto& file) {
    return std::any_of(found.begin(), found.end(),
                       [&](const naming::Found& layer) { return layer.group.contents == &file; });
  });
  if (checkpoint == contents.end()) fail("{}", why_no_model());
  const std::filesystem::path folder = std::filesystem::path(checkpoint->name).parent_path();
  std::error_code ignored;
  if (checkpoint->format == "safetensors" && request.config.empty() &&
      std::filesystem::exists(folder / "config.json", ignored))
    fail("{}: one file of a checkpoint, whose config.json is beside it; give the folder: {}",
         checkpoint->name, folder.empty() ? "." : folder.string());
  for (const naming::Found& layer : found)
    if (layer.group.contents != &*checkpoint)
      fail("{} and {}: two checkpoints, but a text needs one; leave one out<or diff>",
           checkpoint->name, layer.group.contents->name);
  whole = std::make_shared<const WholeModel>(recognised);
  std::vector<const naming::Found*> layers;
  for (const std::string& id : whole->layers())
    for (const naming::Found& layer : recognised)
      if (layer.id == id) layers.push_back(&layer);
  note_model(layers);
  if (checkpoint->graph)
    std::ranges::move(hold_against_graph(*whole), std::back_inserter(notes_of_model));
  require_layers_of_bindings();
}

/// Notes the model's leftovers and options of the run.
void FoundLayers::note_model(const std::vector<const naming::Found*>& layers) {
  notes_of_model = require_naming_fits(*layers[0]);
  const GraphNames* names = names_of(found[0]);
  std::ranges::move(leftovers_of(layers, names ? names->options : options),
                    std::back_inserter(notes_of_model));
  Message given;
  for (const auto& [name, value] : request.settings)
    given += message("{}<{}> {}", given.empty() ? "" : ", ", name, value);
  if (!given.empty())
    notes_of_model.emplace_back(
        message("{}: for every layer of the model, those before a chosen one too", given));
}

/// The layers in a stage's name: "layers.2.q", "layers.-1.q", "layers.0-2.q", or another tool's
/// form.
PlaceLayers layers_of_stage(const std::string& name, std::size_t count) {
  PlaceLayers named = layers_of_place(name, name);
  named.count_from_first(count, name);
  if (const auto number = naming::layer_number(name); number && !named.names_layer())
    named.layers = {*number, *number};
  return named;
}

/// "layers.2.resid_pre" among the stages asked for chooses layer 2 without --layer.
void FoundLayers::choose_named_layers() {
  std::size_t count = 0;
  for (const LayerListing& layer : listing)
    if (!layer.id.empty()) count = std::max(count, number_of(layer.id) + 1);
  std::optional<std::vector<std::string>> all;
  for (const std::string& name : request.stages) {
    const PlaceLayers named = layers_of_stage(name, count);
    if (!named.names_layer() || name == "all") continue;
    std::vector<std::string> ids;
    for (const std::string& id : chosen)
      if (!id.empty() && named.is_of(number_of(id))) ids.push_back(id);
    if (all && *all != ids)
      fail("{}: stages of several layers are named; choose the layers with <layer>, and the stages "
           "by their own names",
           name);
    if (ids.empty() && request.layer.empty() && named.layers)
      fail("{}: there is no layer {}; the layers are {}", name, named.layers->first,
           fmt::join(chosen, ", "));
    if (!request.layer.empty() && (ids.empty() || chosen.size() > 1) && !named.every_layer)
      fail("{}: <layer> {} chooses {}: leave the number out of the stage's name, or <layer>", name,
           request.layer, counted(chosen.size(), "layers"));
    all = std::move(ids);
  }
  if (all) chosen = std::move(*all);
}

/// Adds the model's own stages as a "layer" without an id, after the others.
void FoundLayers::choose_ends() {
  choose_named_layers();
  bool of_layers = false, of_model = false;
  for (const std::string& name : request.stages) {
    const bool ends = name != "all" && readings_of(name).empty() && is_of_model(stage_named(name));
    (ends ? of_model : of_layers) = true;
  }
  if (request.stages.empty())
    of_layers = true, of_model = request.shows_ends && request.layer.empty();
  if (!of_layers) chosen.clear();
  if (of_model) chosen.emplace_back();
  if (chosen.size() == 1 && !chosen[0].empty()) return;
  for (const auto* list : {&bindings, &identity_bindings})
    for (const io::Source& binding : *list)
      if (label_name(binding.name).empty() && !naming::layer_number(binding.name))
        fail("{}: of which layer? Write <layers.N.{}=…>, or choose one with <layer>", binding.text,
             binding.name);
}

/// Whether a binding is for this layer: by its number, or because only this one is chosen.
bool FoundLayers::binds(const io::Source& binding, const std::string& id) const {
  if (!label_name(binding.name).empty()) return true;
  if (const std::optional<std::size_t> number = naming::layer_number(binding.name))
    return *number == number_of(id);
  return chosen.size() == 1 && chosen[0] == id;
}

Layer layer_of_ends(const LayerInput& input, std::shared_ptr<const ModelEnds> ends) {
  Layer layer;
  layer.dtype = input.X.dtype();
  const Shape& shape = input.X.shape();
  Dims& dims = layer.dims;
  dims.batched = shape.size() == 3;
  dims.B = dims.batched ? shape[0] : 1;
  dims.T = dims.S = dims.S_all = shape[shape.size() - 2];
  dims.d_model = dims.d_out = shape.back();
  if (ends->head.present()) dims.vocabulary = ends->head.decoder.out();
  layer.tokens = input.labels;
  layer.item_tokens = input.item_labels;
  if (!layer.item_tokens.empty()) layer.tokens = layer.item_tokens[0];
  layer.key_tokens = layer.tokens, layer.item_key_tokens = layer.item_tokens;
  layer.lengths = input.lengths;
  layer.kept = input.kept;
  layer.ends = std::move(ends);
  return layer;
}

void add_to(Fingerprint& fingerprint, const LoadedLayer& loaded) {
  if (!loaded.X_of_text) {
    fingerprint.add(loaded.layer);
    return;
  }
  Layer layer = loaded.layer;
  layer.X = {};
  if (layer.ends) {
    ModelEnds ends = *layer.ends;
    ends.embed = ends.stream = {};
    layer.ends = std::make_shared<ModelEnds>(std::move(ends));
  }
  fingerprint.add(layer);
}

bool Sources::needs_last_stream() const {
  const std::vector<std::string>& stages = state_->request.stages;
  return stages.empty() || std::ranges::any_of(stages, [](const std::string& name) {
           return name != "all" && readings_of(name).empty() && is_of_model(stage_named(name)) &&
                  stage_named(name) != Stage::embed;
         });
}

LoadedLayer Sources::load_ends(const LayerInput& input,
                               std::shared_ptr<const ModelEnds> ends) const {
  const Request& request = state_->request;
  LoadedLayer loaded;
  loaded.naming = state_->found[0].family->title;
  loaded.X_of_text = true;
  if (state_->chosen.size() == 1) loaded.notes = input.notes; // else the layers have them
  Layer& layer = loaded.layer;
  layer = layer_of_ends(input, std::move(ends));
  const Dims& dims = layer.dims;
  if (!request.tokens.empty()) {
    Labels labels;
    state_->add_tokens(request.tokens, "tokens", labels);
    layer.tokens = labels.tokens, layer.item_tokens.clear(), layer.item_key_tokens.clear();
    if (layer.tokens.size() != dims.T)
      fail("{}: {}, but the text has {}", labels.tokens_source,
           counted(layer.tokens.size(), "labels"), counted(dims.T, "tokens"));
  }
  layer.key_tokens = layer.tokens;
  return loaded;
}

} // namespace mha
