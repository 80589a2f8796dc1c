// A whole model, opened once.

#include <mha/api/model_state.hpp>
#include <mha/api/visit.hpp>
#include <mha/api/wishes.hpp>
#include <mha/layer/members.hpp>
#include <mha/layer/names.hpp>
#include <mha/load/layer_source.hpp>
#include <mha/model/text.hpp>
#include <mha/naming/stage_names.hpp>
#include <mha/naming/tensor_names.hpp>
#include <mha/observe/not_finite.hpp>
#include <mha/system/parse.hpp>

namespace mha {

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
  return of_one_token->sized(n);
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
    // A setting that contradicts the files is an error here, not in the first run. Without settings
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
    Advance pass;
    pass.threads = options.threads;
    pass.arrived = [&](const Residual& at) {
      if (options.progress)
        options.progress(static_cast<double>(at.layer) / static_cast<double>(n));
    };
    return layers->layer(advance(*layers, layers->embedded(), n, pass));
  });
}

} // namespace mha
