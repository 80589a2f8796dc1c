// A whole model computed: a text through every layer.

#include <mha/api/cache.hpp>
#include <mha/api/visit.hpp>
#include <mha/layer/graph.hpp>
#include <mha/load/families/family.hpp>
#include <mha/load/load.hpp>
#include <mha/model/pass.hpp>
#include <mha/system/limits.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace mha {

struct ModelCache::State {
  std::vector<Cache> layers;
  std::optional<Cache> ends; ///< embed, final, logits
  std::vector<std::string> tokens;
};

namespace {

/// A checkpoint opened with a text, and who computes the text through it.
struct OpenedModel {
  std::shared_ptr<ModelPass> pass;
  Model model;
};

OpenedModel open_with(const Checkpoint& checkpoint, Text text, std::size_t threads) {
  auto pass = std::make_shared<ModelPass>();
  pass->text = std::move(text);
  pass->threads = threads;
  Request request;
  request.sources = {checkpoint.folder()};
  request.settings = checkpoint.options().settings;
  request.dtype = checkpoint.options().dtype;
  request.inputs = pass;
  request.shows_ends = true;
  return {pass, Model(std::move(request))};
}

/// A layer of the text, and what was taken silently on the way.
Layer layer_of_text(const Checkpoint& checkpoint, const OpenedModel& opened,
                    const std::string& id) {
  LoadedLayer loaded = opened.model.load(id);
  std::vector<Note> notes = std::move(loaded.notes);
  for (const Note& note : opened.pass->notes()) notes.push_back(note);
  for (const Inputs::OfLayer& layer : opened.pass->take_warnings())
    for (const Note& note : layer.warnings)
      notes.push_back(warning(fmt::format("layer {}: {}", layer.id, note.text)));
  api::tell(checkpoint.options().notes, std::move(notes));
  return std::move(loaded.layer);
}

/// Which stages of which layer are asked for; of the model itself behind the last layer.
class Wishes {
public:
  Wishes(const std::vector<std::string>& names, std::size_t layers) : stages_(layers + 1) {
    if (names.empty())
      for (StageSet& all : stages_) all.set();
    for (const std::string& name : names) add(name, layers);
  }

  /// What is asked for of a layer that has these. Throws Error for what it lacks and somebody
  /// named.
  StageSet of(std::size_t number, const Layer& layer) const {
    StageSet there = available_stages(layer), wanted = stages_[number];
    if (wanted.all()) return there;
    for (const StageInfo& info : stages())
      if (contains(wanted, info.stage)) require_stage(layer, info.stage);
    return wanted;
  }
  bool any(std::size_t number) const { return stages_[number].any(); }

private:
  void add(const std::string& name, std::size_t layers) {
    const Stage stage = stage_named(name);
    const std::optional<std::size_t> number = naming::layer_number(name);
    if (is_of_model(stage))
      stages_[layers].set(index_of(stage));
    else if (!number)
      for (std::size_t n = 0; n < layers; ++n) stages_[n].set(index_of(stage));
    else if (*number < layers)
      stages_[*number].set(index_of(stage));
    else
      fail("{}: the model has {}, counted from 0", name, counted(layers, "layers"));
  }

  std::vector<StageSet> stages_;
};

ModelCache run_text(const Checkpoint& checkpoint, Text text, const std::vector<std::string>& names,
                    std::size_t threads) {
  const OpenedModel opened = open_with(checkpoint, std::move(text), threads);
  ModelPass& pass = *opened.pass;
  const std::vector<std::string>& ids = pass.layers();
  const Wishes wishes(names, ids.size());

  // What it takes is known beforehand.
  std::size_t bytes = 0;
  for (std::size_t n = 0; n <= ids.size(); ++n) {
    if (!wishes.any(n)) continue;
    const Layer outline = opened.model.outline(n < ids.size() ? ids[n] : "").layer;
    bytes += api::bytes_of(outline, wishes.of(n, outline));
  }
  require_memory(bytes, "the stages asked for",
                 "name those that are needed: mha::run(model, text, {\"layers.0.weights\", …})");

  auto state = std::make_shared<ModelCache::State>();
  for (int id : pass.ids()[0]) state->tokens.push_back(pass.label(id));
  for (std::size_t n = 0; n < ids.size(); ++n) {
    const std::string name = fmt::format("layers.{}", n);
    if (!wishes.any(n)) {
      auto nothing = std::make_shared<Cache::State>();
      nothing->layer = name, nothing->available.set();
      state->layers.emplace_back(std::move(nothing));
      continue;
    }
    const Layer layer = layer_of_text(checkpoint, opened, ids[n]);
    const std::shared_ptr<Observer> next = pass.handover(layer, ids[n]);
    state->layers.push_back(api::computed(layer, wishes.of(n, layer), threads, next.get(), name));
  }
  if (wishes.any(ids.size())) {
    const Layer ends = layer_of_text(checkpoint, opened, "");
    state->ends = api::computed(ends, wishes.of(ids.size(), ends), threads, nullptr, "the model");
  }
  return ModelCache(std::move(state));
}

Text text_of(std::string_view text) {
  Text one;
  one.texts = {std::string(text)};
  return one;
}

} // namespace

Checkpoint::Checkpoint(std::string folder, Options options)
    : folder_(std::move(folder)), options_(std::move(options)) {
  if (!options_.tokens.empty() || !options_.key_tokens.empty())
    fail("{}: a text's labels come from the model's tokenizer: leave tokens and key_tokens out",
         folder_);
  layers_ = layers_in(folder_);
  if (layers_.empty() || layers_[0].empty())
    fail("{}: no model's layers: a folder with config.json and the model's tensors expected",
         folder_);
}

Layer Checkpoint::layer(std::string_view id, std::string_view text) const {
  return api::visiting([&] {
    const OpenedModel opened = open_with(*this, text_of(text), 0);
    return layer_of_text(*this, opened, std::string(id));
  });
}

Checkpoint model(const std::string& folder, const Options& options) {
  return Checkpoint(folder, options);
}

std::vector<Cache> ModelCache::layers() const {
  return state_->layers;
}
std::vector<std::string> ModelCache::tokens() const {
  return state_->tokens;
}

Tensor ModelCache::tensor(std::string_view name) const {
  return api::visiting([&] {
    const Stage stage = stage_named(name);
    if (is_of_model(stage)) {
      if (!state_->ends) fail("{} was not asked for: it is the model's own", name_of(stage));
      return state_->ends->tensor(stage);
    }
    const std::size_t count = state_->layers.size();
    const std::optional<std::size_t> number = naming::layer_number(name);
    if (!number && count != 1)
      fail("{}: of which layer? layers.0.{} to layers.{}.{}", name, name_of(stage), count - 1,
           name_of(stage));
    if (number.value_or(0) >= count)
      fail("{}: the model has {}, counted from 0", name, counted(count, "layers"));
    return state_->layers[number.value_or(0)].tensor(stage);
  });
}

ModelCache run(const Checkpoint& model, std::string_view text,
               const std::vector<std::string>& stages, std::size_t threads) {
  return api::visiting([&] { return run_text(model, text_of(text), stages, threads); });
}

ModelCache run(const Checkpoint& model, const std::vector<int>& ids,
               const std::vector<std::string>& stages, std::size_t threads) {
  return api::visiting([&] {
    if (ids.empty()) fail("ids: there is no token to compute with");
    Text text;
    text.ids = {fmt::format("{}", fmt::join(ids, ","))};
    return run_text(model, std::move(text), stages, threads);
  });
}

} // namespace mha
