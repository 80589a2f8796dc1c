// A whole model's layers: which of them a text is for, and what each gets.

#include <mha/load/model_state.hpp>

#include <mha/formats/formats.hpp>

#include <algorithm>

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

/// Bindings that a text does not go with: it makes X itself.
void Model::State::require_no_input() const {
  for (const io::Source& binding : bindings) {
    const std::string name = canonical_name(binding.name, false);
    if ((name.starts_with("X") || name == "x") && binding.name != "resid_pre")
      fail("{}: the text gives every layer its input; leave {} out, or the text", binding.text,
           binding.name);
  }
}

/// A patch of a layer that there is not, or of none, would change nothing.
void Model::State::require_layers_of_bindings() const {
  for (const io::Source& binding : bindings) {
    if (!label_name(binding.name).empty()) continue;
    const std::optional<std::size_t> number = naming::layer_number(binding.name);
    if (!number && binding.name.starts_with("layers."))
      fail("{}: a layer's number expected: layers.0.weights=…", binding.text);
    const auto is_it = [&](const auto& layer) { return number_of(layer.id) == *number; };
    if (number && std::ranges::none_of(listing, is_it))
      fail("{}: there is no layer {}: the model's layers are {} to {}", binding.text, *number,
           listing.front().id, listing.back().id);
  }
}

void Model::State::open_text() {
  require_no_input();
  const auto checkpoint = std::find_if(contents.begin(), contents.end(), [&](const auto& file) {
    return std::any_of(found.begin(), found.end(),
                       [&](const naming::Found& layer) { return layer.group.contents == &file; });
  });
  if (checkpoint == contents.end())
    fail("a text needs a checkpoint: a folder with config.json and the model's tensors");
  request.inputs->open(*checkpoint, found, request.dtype);
  std::string typed;
  for (const auto& [name, value] : request.settings) {
    std::string option(name);
    std::replace(option.begin(), option.end(), '_', '-');
    typed += fmt::format("{}--{} {}", typed.empty() ? "" : ", ", option, value);
  }
  if (!typed.empty())
    request.inputs->remark(
        fmt::format("{}: for every layer of the model, those before a chosen one too", typed));
  listing.clear();
  for (const naming::Found& layer : found)
    listing.push_back({layer.id, layer.group.prefix, std::string(layer.family->title)});
  require_layers_of_bindings();
}

/// The model's own stages are a "layer" without an id, behind the others.
void Model::State::choose_ends() {
  bool of_layers = false, of_model = false;
  for (const std::string& name : request.stages) {
    const bool ends = name != "all" && readings_of(name).empty() && is_of_model(stage_named(name));
    (ends ? of_model : of_layers) = true;
  }
  if (request.stages.empty())
    of_layers = true, of_model = request.shows_ends && request.layer.empty();
  if (!of_layers) chosen.clear();
  if (of_model) chosen.emplace_back();
  const bool bare = std::any_of(bindings.begin(), bindings.end(), [](const io::Source& binding) {
    return label_name(binding.name).empty() && !naming::layer_number(binding.name);
  });
  if (bare && (chosen.size() != 1 || chosen[0].empty()))
    for (const io::Source& binding : bindings)
      if (label_name(binding.name).empty() && !naming::layer_number(binding.name))
        fail("{}: of which layer? Say layers.N.{}=…, or choose one with --layer", binding.text,
             binding.name);
}

/// Whether a binding is of this layer: it says its number, or there is but one chosen.
bool Model::State::binds(const io::Source& binding, const std::string& id) const {
  if (!label_name(binding.name).empty()) return true;
  if (const std::optional<std::size_t> number = naming::layer_number(binding.name))
    return *number == number_of(id);
  return chosen.size() == 1 && chosen[0] == id;
}

void Model::State::add_input(const LayerInput& input, NamedTensors& parts, Settings&,
                             Labels& labels) const {
  parts["X"] = {input.X, input.source};
  if (!input.attention_mask.empty()) parts["attention_mask"] = {input.attention_mask, input.source};
  labels.take("tokens", {input.labels, input.item_labels}, input.source);
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
  if (ends->head.there()) dims.vocabulary = ends->head.decoder.out();
  layer.tokens = input.labels;
  layer.item_tokens = input.item_labels;
  for (std::vector<std::string>& labels : layer.item_tokens) labels.resize(dims.T);
  if (!layer.item_tokens.empty()) layer.tokens = layer.item_tokens[0];
  layer.key_tokens = layer.tokens, layer.item_key_tokens = layer.item_tokens;
  layer.lengths = input.lengths;
  layer.ends = std::move(ends);
  return layer;
}

LoadedLayer Model::load_ends(bool outline) const {
  const Request& request = state_->request;
  const bool only_embed =
      !request.stages.empty() &&
      std::all_of(request.stages.begin(), request.stages.end(), [](const std::string& name) {
        return name == "all" || !readings_of(name).empty() || !is_of_model(stage_named(name)) ||
               stage_named(name) == Stage::embed;
      });
  LoadedLayer loaded;
  loaded.naming = state_->found[0].family->title;
  std::shared_ptr<const ModelEnds> ends;
  const LayerInput input = text()->ends(*this, !only_embed, outline, ends);
  if (state_->chosen.size() == 1) loaded.notes = input.notes; // else the layers say them
  Layer& layer = loaded.layer;
  layer = layer_of_ends(input, std::move(ends));
  const Dims& dims = layer.dims;
  if (!request.tokens.empty()) {
    Labels labels;
    state_->add_tokens(request.tokens, "--tokens", labels);
    layer.tokens = labels.tokens, layer.item_tokens.clear(), layer.item_key_tokens.clear();
    if (layer.tokens.size() != dims.T)
      fail("{}: {}, but the text has {}", labels.tokens_source,
           counted(layer.tokens.size(), "labels"), counted(dims.T, "tokens"));
  }
  layer.key_tokens = layer.tokens;
  return loaded;
}

} // namespace mha
