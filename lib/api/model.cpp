// A whole model, opened once.

#include <mha/api/model_state.hpp>
#include <mha/api/model_weights.hpp>
#include <mha/api/visit.hpp>
#include <mha/api/wishes.hpp>
#include <mha/layer/members.hpp>
#include <mha/layer/names.hpp>
#include <mha/load/layer_source.hpp>
#include <mha/model/token_ids.hpp>
#include <mha/naming/stage_names.hpp>
#include <mha/naming/tensor_names.hpp>
#include <mha/observe/not_finite.hpp>
#include <mha/system/parse.hpp>

namespace mha {

namespace {

/// What is behind "layers.3.", or another tool's words: norm.weight has a dot of its own.
std::string behind_layer(std::string_view name) {
  std::string typed(name);
  if (layers_of_place(name, name).names_layer())
    typed.erase(0, typed.find('.', typed.find('.') + 1) + 1);
  return typed;
}

/// "layers.3.W_q": which layer, and the tensor's canonical name, or a name around attention.
std::pair<std::size_t, std::string> layer_and_tensor(const Model::State& model,
                                                     std::string_view name) {
  if (name.empty()) fail("no weight is named: layers.3.W_q is one");
  const PlaceLayers named = api::layers_named(name, model.layers());
  const std::string typed = behind_layer(name);
  const bool around = api::weight_around_attention(nullptr, typed).has_value();
  if (!around && find_stage(typed) && !find_tensor_name(typed))
    fail("{}: {} is a stage, no weight: a run keeps it, or patches it", name, typed);
  if (!around && !named.names_layer() && canonical_name(typed, true).empty())
    fail("{}: the model has no weight of this name: {}, or of a layer, layers.0.W_q or "
         "layers.0.mlp.in",
         name, api::names_of_ends());
  const std::string tensor = around ? typed : bound_name(std::string(name), typed, true);
  const bool one = named.layers && named.layers->first == named.layers->second;
  if (!one && (model.layers() != 1 || named.every_layer))
    fail("{}: of which layer? Say it: layers.0.{}", name, tensor);
  return {one ? named.layers->first : 0, tensor};
}

} // namespace

std::size_t Model::State::number_of(const LayerId& layer) const {
  const std::string& id = layer.id();
  const std::vector<std::string>& ids = this->ids();
  for (std::size_t n = 0; n < ids.size(); ++n)
    if (ids[n] == id) return n;
  const auto number = parse_number<std::int64_t>(id);
  const auto count = static_cast<std::int64_t>(ids.size());
  if (number && *number < 0 && *number >= -count) return static_cast<std::size_t>(*number + count);
  fail("{}: there is no layer '{}': the model's layers are {} to {}", folder, id, ids.front(),
       ids.back());
}

std::shared_ptr<TextLayers> Model::State::layers_for(std::shared_ptr<const Texts> texts) const {
  return std::make_shared<TextLayers>(*sources, std::move(texts), edits);
}

std::shared_ptr<const Texts> Model::State::texts_of(const Tokens& tokens) const {
  const Tokens::State& of = *tokens.state();
  if (of.weights != weights) fail("the tokens are of another model: make them by this one");
  TokenIds ids = padded(of.ids, of.batched, weights->model().pad().value_or(0));
  return std::make_shared<const Texts>(weights, std::move(ids), "the tokens", of.labelled);
}

std::shared_ptr<TextLayers> Model::State::layers_for(const Tokens& tokens) const {
  return layers_for(texts_of(tokens));
}

void Model::State::take_one_token() {
  of_one_token =
      layers_for(std::make_shared<const Texts>(weights, padded({{0}}, false, 0), "a token", false));
}

Layer Model::State::layer_of_one_token(std::size_t n) const {
  return of_one_token->layer(n, of_one_token->embedded().x);
}

Model::Model(std::string folder, ModelOptions options) : state_(std::make_shared<State>()) {
  api::visiting([&] {
    if (folder.empty()) fail("no model is named: a folder with config.json expected");
    api::require_settings(options.settings);
    Request request;
    request.sources = {folder};
    request.settings = options.settings;
    request.dtype = options.dtype, request.naming = options.naming;
    request.for_texts = true;
    request.shows_ends = request.keeps_layers = true;
    state_->sources = Sources(std::move(request));
    state_->weights = std::make_shared<const Weights>(*state_->sources, options.memory);
    state_->folder = std::move(folder);
    state_->take_one_token();
    // A setting that contradicts the files is an error here, not of the first run; without settings
    // the layers are read later.
    for (std::size_t n = 0; !options.settings.empty() && n < state_->layers(); ++n)
      (void)state_->layer_of_one_token(n);
  });
}

std::string Model::folder() const {
  return state_->folder;
}
std::size_t Model::layers() const {
  return state_->layers();
}
DType Model::dtype() const {
  return state_->weights->dtype();
}
std::vector<Note> Model::notes() const {
  std::vector<Note> notes = state_->weights->notes();
  notes.insert(notes.end(), state_->doubts.begin(), state_->doubts.end());
  return notes;
}

Dims Model::dims(const LayerId& layer) const {
  return api::visiting([&] {
    Dims dims = state_->layer_of_one_token(state_->number_of(layer)).dims;
    const WholeModel& model = state_->weights->model();
    if (model.head().present()) dims.vocabulary = model.head().decoder.out();
    return dims;
  });
}

Layer Model::layer(const LayerId& layer) const {
  return api::visiting([&] {
    const std::size_t n = state_->number_of(layer);
    Layer alone = state_->layer_of_one_token(n);
    alone.X = Tensor();
    alone.missing_X = message(": layer({}, tokens) has one, or load the layer with <X=FILE>", n);
    return alone;
  });
}

Layer Model::layer(const LayerId& layer, const Tokens& tokens, const RunOptions& options) const {
  return api::visiting(options, [&] {
    const std::shared_ptr<TextLayers> layers = state_->layers_for(tokens);
    const std::size_t n = state_->number_of(layer);
    Advance way;
    way.threads = options.threads;
    way.arrived = [&](const Residual& at) {
      if (options.progress)
        options.progress(static_cast<double>(at.layer) / static_cast<double>(n));
    };
    return layers->layer(n, advance(*layers, layers->embedded(), n, way).x);
  });
}

Tensor Model::weight(std::string_view name) const {
  return api::visiting([&] {
    const WholeModel& model = state_->weights->model();
    if (const std::optional<Tensor> found = api::weight_of_ends(model, name)) {
      if (found->empty()) fail("{}: the model has none", name);
      return convert(*found, dtype()).read_only();
    }
    const auto [n, tensor] = layer_and_tensor(*state_, name);
    const Layer layer = state_->layer_of_one_token(n);
    Tensor found;
    if (const auto around = api::weight_around_attention(layer.block.get(), tensor))
      if (!around->empty()) return convert(*around, dtype()).read_only();
    each_part_of_layer(layer, [&, &wanted = tensor](std::string_view part, const auto& value) {
      if constexpr (std::same_as<std::remove_cvref_t<decltype(value)>, Tensor>)
        if (part == wanted) found = value;
    });
    if (found.empty() || tensor == "X") fail("{}: layer {} has no {}", name, n, tensor);
    return found.read_only();
  });
}

Model Model::with(std::string_view name, Tensor weight) const {
  return api::visiting([&] {
    if (api::weight_of_ends(state_->weights->model(), name))
      fail("{}: weights of attention are exchanged, layers.N.W_q; what it makes, embed, final and "
           "logits, is patched in a run",
           name);
    const auto [n, tensor] = layer_and_tensor(*state_, name);
    if (api::weight_around_attention(nullptr, tensor))
      fail("{}: weights of attention are exchanged, layers.N.W_q; what it makes, a stage of the "
           "layer, is patched in a run",
           name);
    if (tensor == "X") fail("{}: a weight of a layer expected, layers.N.W_q", name);
    (void)state_->layer_of_one_token(n).with(tensor, weight); // throws Error where it does not fit
    auto changed = std::make_shared<State>(*state_);
    if (const std::string found = not_finite_in(weight); !found.empty())
      changed->doubts.push_back(
          warning(fmt::format("{} has {}: everything computed from them is lost", name, found)));
    changed->edits.push_back({.name = tensor, .tensor = std::move(weight), .layer = n});
    changed->take_one_token();
    return Model(std::move(changed));
  });
}

} // namespace mha
