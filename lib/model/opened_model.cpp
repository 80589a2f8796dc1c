#include <mha/model/opened_model.hpp>

#include <mha/layer/graph.hpp>
#include <mha/model/patcher.hpp>
#include <mha/naming/stage_names.hpp>
#include <mha/observe/trace.hpp>
#include <mha/system/clock.hpp>

#include <algorithm>
#include <utility>

namespace mha {

namespace {

std::shared_ptr<const RunRequest> of_its_texts(RunRequest request) {
  request.for_texts = request.has_text();
  return std::make_shared<const RunRequest>(std::move(request));
}

std::shared_ptr<const Texts> opened_texts(const Sources& sources, const RunRequest& request) {
  if (!sources.model()) return nullptr;
  return std::make_shared<const Texts>(std::make_shared<const Weights>(sources, request.memory),
                                       request.text);
}

} // namespace

OpenedModel::OpenedModel(RunRequest request)
    : request_(of_its_texts(std::move(request))),
      sources_(*request_),
      texts_(opened_texts(sources_, *request_)) {
  if (texts_) layers_ = layers_of(texts_, false);
  rolls_ = std::ranges::any_of(request_->stages, [](const std::string& name) {
    return find_derived(name) == Stage::rollout;
  });
}

OpenedModel::OpenedModel(Sources sources, std::shared_ptr<const Texts> texts)
    : request_(std::make_shared<const RunRequest>()),
      sources_(std::move(sources)),
      texts_(std::move(texts)),
      layers_(layers_of(texts_, false)) {}

OpenedModel::OpenedModel(const OpenedModel& opened, std::shared_ptr<const Texts> texts)
    : threads(opened.threads),
      request_(opened.request_),
      sources_(opened.sources_),
      texts_(std::move(texts)),
      layers_(layers_of(texts_, false)) {}

PatchLayer OpenedModel::patch_layer() const {
  if (!request_->patches) return {};
  return [request = request_, sources = sources_, weights = texts_ ? texts_->weights() : nullptr](
             Layer& layer, const std::string& id, const std::vector<Note>& reported) {
    return request->patches->patch(layer, id, {request->text, sources, weights}, reported);
  };
}

std::shared_ptr<const TextLayers> OpenedModel::layers_of(std::shared_ptr<const Texts> texts,
                                                         bool kept) const {
  return std::make_shared<const TextLayers>(sources_, std::move(texts), std::vector<TensorEdit>(),
                                            patch_layer(), kept);
}

/// A layer of files with the run's patches, and the notes about them.
LoadedLayer OpenedModel::patched(LoadedLayer loaded) const {
  if (const PatchLayer patch = patch_layer())
    std::ranges::move(patch(loaded.layer, loaded.id, loaded.notes),
                      std::back_inserter(loaded.notes));
  return loaded;
}

void OpenedModel::add_times(const LayerTimes& times) {
  times_.push_back(times);
  computed_s += times.computed_s;
}

/// Brings the stream to a layer: from where it is, or from the beginning. A layer that was computed
/// for an observer has already kept its stream.
const Residual& OpenedModel::stream_to(std::size_t number) {
  if (stream_.x.empty() || stream_.layer > number) stream_ = layers_->embedded(), run_ = nullptr;
  to_ = std::max(to_, number);
  if (run_ && run_->keeps_stream() && stream_.layer < number) {
    LayerTimes times;
    times.computed_s =
        seconds_of([&] { move_past(*layers_, *run_, rolls_, threads, &times.phases, stream_); });
    run_ = nullptr;
    add_times(times);
  }
  if (stream_.layer < number) {
    run_ = nullptr;
    Advance pass;
    pass.threads = threads, pass.rolls = rolls_;
    pass.timed = [this](std::size_t, const LayerTimes& times) { add_times(times); };
    stream_ = advance(*layers_, std::move(stream_), number, pass);
  }
  return stream_;
}

/// Whether a later layer, or the model's end, will be asked for.
bool OpenedModel::is_read_after(std::size_t number) const {
  return number < to_ || std::ranges::any_of(chosen(), [&](const std::string& id) {
           return id.empty() || texts_->place_of(id) > number;
         });
}

/// Adds the warnings about layers that were computed since the last load.
LoadedLayer OpenedModel::with_new_warnings(LoadedLayer loaded) {
  loaded.on_the_way = layers_->take_layer_warnings();
  return loaded;
}

/// The rollout of files begins at layer 0, and continues from the layer that was loaded last.
void OpenedModel::continue_rollout(LoadedLayer& loaded) {
  loaded.layer.misses_rollout = !loaded.id.empty() && loaded.id != std::to_string(rolled_out_);
  if (loaded.layer.misses_rollout) return;
  if (rolled_out_ > 0) loaded.layer.rollout_before = last_->rollout(threads);
  ++rolled_out_;
}

LoadedLayer OpenedModel::load(const std::string& id, std::vector<Sources::SourceTensor>* parts) {
  if (!texts_) {
    LoadedLayer loaded = patched(sources_.load(id, nullptr, false, parts));
    if (rolls_) continue_rollout(loaded);
    // It counts how often the layer is computed, and keeps its rollout.
    last_ = std::make_shared<LayerRun>(loaded.layer, sources_.counts(),
                                       rolls_ ? StageSet{Stage::rollout} : StageSet());
    return loaded;
  }
  if (id.empty()) {
    last_ = nullptr;
    const Tensor embedded = layers_->embedded().x;
    return with_new_warnings(layers_->load_ends(
        embedded, sources_.needs_last_stream() ? stream_to(layers_->count()).x : embedded));
  }
  const std::size_t number = texts_->place_of(id);
  LoadedLayer loaded = layers_->load(stream_to(number), parts);
  loaded.layer.rollout_before = stream_.rollout;
  StageSet outputs;
  if (is_read_after(number)) outputs = outputs_of(*layers_, number, rolls_);
  run_ = last_ = std::make_shared<LayerRun>(loaded.layer, sources_.counts(), outputs);
  return with_new_warnings(std::move(loaded));
}

LoadedLayer OpenedModel::outline(const std::string& id) const {
  if (!texts_) {
    LoadedLayer loaded = patched(sources_.load(id, nullptr, true));
    const auto place = std::ranges::find(chosen(), id) - chosen().begin();
    loaded.layer.misses_rollout = rolls_ && !id.empty() && id != std::to_string(place);
    return loaded;
  }
  const Tensor zeros = texts_->zeros();
  if (id.empty()) return layers_->load_ends(zeros, zeros);
  LoadedLayer loaded = layers_->outline(texts_->place_of(id));
  if (rolls_) loaded.layer.misses_rollout = false; // it comes with the stream
  return loaded;
}

ComputeLayer OpenedModel::compute() const {
  if (!last_) return mha::compute;
  return [run = last_](Layer layer, const Plan& plan, Observer& observer, std::size_t threads) {
    return run->compute(std::move(layer), plan, observer, threads);
  };
}

std::vector<Sources::SourceTensor> OpenedModel::tensors_of(const std::string& id) {
  if (!texts_) return sources_.tensors_of(id);
  const std::size_t number = texts_->place_of(id);
  const LayerInput input = layers_->input(stream_to(number));
  return sources_.tensors_of(id, &input);
}

LoadedLayer OpenedModel::ends_after(std::size_t layers) {
  last_ = nullptr;
  LoadedLayer loaded;
  loaded.layer = layers_->ends(stream_to(layers).x);
  return with_new_warnings(std::move(loaded));
}

void OpenedModel::add_input_of(const std::string& id, Fingerprint& fingerprint,
                               std::size_t& added) const {
  if (!texts_) return;
  if (added == 0) texts_->add_to(fingerprint);
  const std::vector<std::string>& layers = texts_->layers();
  for (std::size_t n = 0; n < layers.size() && layers[n] != id; ++n)
    if (n >= added) mha::add_to(fingerprint, outline(layers[n])), added = n + 1;
}

std::map<Stage, Tensor> ExactPass::stages(const std::string& id, const std::vector<Stage>& wanted,
                                          std::size_t threads) {
  if (!model_) {
    model_.emplace(open_());
    model_->threads = threads;
  }
  const LoadedLayer loaded = model_->load(id);
  const StageSet available = available_stages(loaded.layer);
  std::vector<Stage> present;
  for (Stage stage : wanted)
    if (contains(available, stage)) present.push_back(stage);
  std::map<Stage, Tensor> values;
  if (present.empty()) return values;
  const Trace kept = trace(loaded.layer, present, {}, threads, model_->compute());
  for (Stage stage : present) values[stage] = kept.value(stage);
  return values;
}

} // namespace mha
