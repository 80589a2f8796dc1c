// Loads one layer of the sources: read once (LayerSource::read is in load.cpp), kept for the next
// request, and assembled with its input.

#include <mha/load/families/kinds.hpp>
#include <mha/load/layer_source.hpp>
#include <mha/load/masks.hpp>
#include <mha/load/whole_model.hpp>

#include <algorithm>

namespace mha {

void ReadLayer::take_input(const LayerInput& input) {
  const auto of_text = [&](const char* name) { // neither from a file nor bound
    const auto part = parts.find(name);
    return part == parts.end() || (!input_source.empty() && part->second.source == input_source);
  };
  if (of_text("X")) parts["X"] = {input.X, input.source};
  if (!input.past.k.empty()) {
    parts["k_past"] = {input.past.k, input.source};
    parts["v_past"] = {input.past.v, input.source};
  }
  if (!input.shared.k.empty()) {
    parts["k_rope"] = {input.shared.k, input.shared_source, true};
    parts["v_norm"] = {input.shared.v, input.shared_source, true};
  }
  if (labels.tokens_source == input_source)
    labels.take("tokens", {input.labels, input.item_labels}, input.source);
  input_source = input.source;
}

void ReadLayer::require_computed() const {
  if (!naming::kind_of(kind_parts, without_attention).empty())
    fail("{}", naming::why_of_kind(loaded.id, kind_parts, without_attention));
}

void ReadLayer::list_origins() {
  loaded.origins.clear();
  for (const auto& [name, part] : parts)
    loaded.origins.push_back(
        {name, part.origin(), part.tensor.dtype(), part.tensor.shape(), part.loose});
}

std::optional<ReadLayer> KeptLayers::find(const std::string& id, bool only_reader) {
  const auto kept = layers_.find(id);
  if (kept == layers_.end()) return std::nullopt;
  if (!only_reader) return kept->second;
  for (const auto& [name, part] : kept->second.parts) bytes_ -= part.tensor.bytes();
  return std::move(layers_.extract(kept).mapped());
}

void KeptLayers::keep(const std::string& id, ReadLayer parts, const Layer& layer) {
  constexpr std::size_t most = std::size_t{256} << 20; // bytes of all
  if (parts.settings.columns) return;                  // the layer's weights are transposed
  // Keeps converted weights, so that they are converted once. Half precision loses nothing by it.
  for (const auto& [name, converted] : {std::pair("W_q", &layer.W_q),
                                        {"W_k", &layer.W_k},
                                        {"W_v", &layer.W_v},
                                        {"W_o", &layer.W_o}})
    if (const auto part = parts.parts.find(name); part != parts.parts.end())
      if (Tensor& tensor = part->second.tensor;
          tensor.shape() == converted->shape() && tensor.dtype() != DType::f64)
        tensor = *converted;
  std::size_t bytes = 0;
  for (const auto& [name, part] : parts.parts) bytes += part.tensor.bytes();
  if (bytes_ + bytes > most) return;
  bytes_ += bytes;
  layers_.emplace(id, std::move(parts));
}

namespace {

/// Takes the sizes of a block's feed-forward.
void take_widths(const TransformerBlock& block, Dims& dims) {
  if (block.mlp.present()) dims.d_ff = block.mlp.in.out();
  if (block.supplement.present()) dims.d_layer = block.supplement.in.out();
  if (!block.mixture) return;
  const Mixture& mixture = *block.mixture;
  dims.E = mixture.in.size(), dims.n = mixture.routing.chosen, dims.I = mixture.in[0].out();
  dims.d_ff = dims.n * dims.I;
  if (mixture.shared.present()) dims.I_shared = mixture.shared.in.out();
}

std::vector<Sources::SourceTensor> as_read(ReadLayer read) {
  std::vector<Sources::SourceTensor> list;
  for (auto& [name, part] : read.parts) {
    // With the setting `columns` they are transposed.
    const bool turned = read.settings.columns && part.rows && turns_in_columns(name, part.tensor);
    list.push_back(
        {name, turned ? transposed(part.tensor) : std::move(part.tensor), part.origin()});
  }
  return list;
}

} // namespace

std::shared_ptr<const TransformerBlock> FoundLayers::block_of(const std::string& id,
                                                              std::vector<Note>& notes) const {
  try {
    if (!around) around = std::make_shared<const WholeModel>(recognised);
  } catch (const Error&) { // a layer by itself
    return nullptr;
  }
  const GraphNames* names = names_of(found[0]);
  if (names && !notes_of_graph) try {
      notes_of_graph = hold_against_graph(*around);
    } catch (const Error& error) {
      if (names->is_asked_for) throw;
      notes.push_back(warning(error.message() + message("; the layer is read without its block")));
      return nullptr;
    }
  if (names) std::ranges::copy(*notes_of_graph, std::back_inserter(notes));
  const auto at = std::ranges::find(around->layers(), id);
  if (at == around->layers().end()) return nullptr;
  return around->block(static_cast<std::size_t>(at - around->layers().begin()));
}

/// Whether these layers form a whole model; the answer is kept.
bool FoundLayers::takes_text() const {
  if (is_whole_model) return *is_whole_model;
  is_whole_model = false; // a layer by itself
  try {
    is_whole_model = !WholeModel(recognised).layers().empty();
  } catch (const Error&) {
  }
  return *is_whole_model;
}

/// Only searches for the first layers: searching all tensors for each of thousands of layers would
/// take too long.
Message LayerSource::what_could_be_X(const std::string& id, std::size_t width) const {
  constexpr std::size_t most = 64;
  const bool looks = searched_for_X++ < most;
  const Message among =
      inputs_among(looks ? others() : std::vector<const io::Contents*>(), id, width);
  return among + (looks && takes_text()
                      ? message(", or a text of the model, <text> WORDS or <ids> N,N…")
                      : "");
}

/// Takes X as the stream that enters a layer, with the model's norm and the block around it.
void LayerSource::take_stream(ReadLayer& layer) const {
  const auto X = layer.parts.find("X");
  if (!request.X_is_stream || X == layer.parts.end()) return;
  Settings& settings = layer.settings;
  const bool is_set = settings.origins.count("input_norm") > 0;
  if (is_set && settings.input_norm != InputNorm::checkpoint) return; // X is what the layer reads
  layer.block = block_of(layer.loaded.id, layer.loaded.notes);
  if (layer.block && !is_set) set(settings, "input_norm", "checkpoint", X->second.source);
}

LoadedLayer Sources::load(const std::string& id, const LayerInput* input, bool keeps,
                          std::vector<SourceTensor>* tensors) const {
  const std::lock_guard hold(state_->reading);
  keeps = keeps || state_->request.keeps_layers;
  std::optional<ReadLayer> read = state_->kept.find(id, !keeps);
  const bool is_new = !read;
  if (is_new)
    read = state_->read(id, input);
  else if (input)
    read->take_input(*input), read->list_origins();
  read->require_computed();
  for (const Stage stage : read->missing.stages)
    if (!read->parts.contains(std::string(name_of(stage))))
      fail("{}: layer {}: {} is missing: {}", state_->contents[0].name, id, name_of(stage),
           read->missing.why);
  if (tensors) *tensors = as_read(*read);

  LoadedLayer loaded = read->loaded;
  if (input) loaded.notes.insert(loaded.notes.begin(), input->notes.begin(), input->notes.end());
  loaded.X_of_text = input && !read->parts.at("X").bound;
  const bool keep = is_new && keeps;
  const std::shared_ptr<const TransformerBlock> block = read->block;
  const std::vector<ModuleResult> results = read->results;
  // Tensors that are not kept are freed during conversion.
  loaded.layer = make_layer(keep ? read->parts : std::move(read->parts), read->settings,
                            state_->request.dtype, read->labels, &loaded.notes);
  Layer& layer = loaded.layer;
  layer.results = results;
  if (layer.X.empty() && !layer.has_given(Stage::x))
    for (const Tensor* W : {&layer.W_c_q, &layer.W_c_kv, &layer.W_q, &layer.W_k, &layer.W_v})
      if (!W->empty() && layer.missing_X.empty())
        layer.missing_X = state_->what_could_be_X(id, W->shape()[0]);
  if (input) {
    state_->whole->check_layer(layer);
    layer.block = input->block;
    layer.lengths = input->lengths;
    layer.kept = input->kept;
  }
  if (!input) take_lengths(state_->contents, layer), layer.block = block;
  if (layer.block) take_widths(*layer.block, layer.dims);
  if (keep) state_->kept.keep(id, std::move(*read), layer);
  return loaded;
}

Sources::OfKind Sources::of_kind(const std::string& id) const {
  const std::lock_guard hold(state_->reading);
  ReadLayer read = state_->read(id, nullptr);
  OfKind of_kind = std::move(read.of_kind);
  of_kind.naming = read.loaded.naming;
  if (!naming::kind_of(read.kind_parts, read.without_attention).empty())
    of_kind.tensors = as_read(read);
  for (const naming::TensorOfKind& part : read.kind_parts)
    of_kind.tensors.push_back({part.name, part.entry.read(), part.source});
  return of_kind;
}

std::vector<Sources::SourceTensor> Sources::tensors_of(const std::string& id,
                                                       const LayerInput* input) const {
  const std::lock_guard hold(state_->reading);
  return as_read(state_->read(id, input));
}

} // namespace mha
