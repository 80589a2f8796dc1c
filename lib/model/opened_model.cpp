#include <mha/model/opened_model.hpp>

#include <mha/model/patcher.hpp>
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
      texts_(opened_texts(sources_, *request_)) {}

OpenedModel::OpenedModel(const OpenedModel& opened, std::shared_ptr<const Texts> texts)
    : threads(opened.threads),
      request_(opened.request_),
      sources_(opened.sources_),
      texts_(std::move(texts)) {}

PatchLayer OpenedModel::patch_layer() const {
  if (!request_->patches) return {};
  return [request = request_, sources = sources_, weights = texts_ ? texts_->weights() : nullptr](
             Layer& layer, const std::string& id, const std::vector<Note>& said) {
    return request->patches->patch(layer, id, {*request, sources, weights}, said);
  };
}

std::shared_ptr<const TextLayers>
OpenedModel::text_layers(std::shared_ptr<const Texts> texts) const {
  return std::make_shared<const TextLayers>(sources_, std::move(texts),
                                            std::vector<TextLayers::Edit>(), patch_layer());
}

/// A layer with the run's patches, and what is to be known of them.
LoadedLayer OpenedModel::patched(LoadedLayer loaded) const {
  if (const PatchLayer patch = patch_layer())
    std::ranges::move(patch(loaded.layer, loaded.id, loaded.notes),
                      std::back_inserter(loaded.notes));
  return loaded;
}

const Tensor& OpenedModel::embedded() {
  if (embedded_.empty()) embedded_ = texts_->embedded();
  return embedded_;
}

/// Brings the stream to a layer: from where it is, or from the beginning. A layer that was computed
/// for an observer has handed on already.
const Tensor& OpenedModel::stream_to(std::size_t number) {
  if (stream_.empty() || at_ > number) stream_ = embedded(), at_ = 0, run_ = nullptr;
  to_ = std::max(to_, number);
  for (; at_ < number; ++at_) {
    LayerTimes& times = times_.emplace_back();
    if (!run_ || !run_->hands_on())
      times.read = seconds_of([&] {
        if (auto own = texts_->warnings_of(load_at(at_, nullptr).notes); !own.empty())
          on_the_way_.push_back({texts_->layers()[at_], std::move(own)});
      });
    computed_s += seconds_of([&] { stream_ = run_->stream(threads, &times.phases); });
    run_ = nullptr;
  }
  return stream_;
}

/// Whether a layer after this one, or the model's end, is going to be asked for.
bool OpenedModel::is_read_behind(std::size_t number) const {
  return number < to_ || std::ranges::any_of(chosen(), [&](const std::string& id) {
           return id.empty() || texts_->place_of(id) > number;
         });
}

/// The layer that reads the stream where it stands.
LoadedLayer OpenedModel::load_at(std::size_t number, std::vector<Sources::SourceTensor>* parts) {
  const LayerInput input = texts_->input(number, stream_);
  LoadedLayer loaded = patched(sources_.load(texts_->layers()[number], &input, false, parts));
  run_ = std::make_shared<LayerRun>(loaded.layer, sources_.counts(), is_read_behind(number));
  return loaded;
}

LoadedLayer OpenedModel::load(const std::string& id, std::vector<Sources::SourceTensor>* parts) {
  if (!texts_) {
    LoadedLayer loaded = patched(sources_.load(id, nullptr, false, parts));
    last_ = std::make_shared<LayerRun>(loaded.layer, sources_.counts(), false);
    return loaded;
  }
  if (id.empty()) return load_ends();
  const std::size_t number = texts_->place_of(id);
  stream_to(number);
  LoadedLayer loaded = load_at(number, parts);
  last_ = run_;
  loaded.on_the_way = std::exchange(on_the_way_, {});
  return loaded;
}

LoadedLayer OpenedModel::ends_of(const Tensor& embedded, const Tensor& stream) const {
  std::shared_ptr<const ModelEnds> ends;
  const LayerInput input = texts_->input_of_ends(embedded, stream, ends);
  LoadedLayer loaded = sources_.load_ends(input, std::move(ends));
  if (const PatchLayer patch = patch_layer())
    std::ranges::move(patch(loaded.layer, "", input.notes), std::back_inserter(loaded.notes));
  return loaded;
}

LoadedLayer OpenedModel::load_ends() {
  last_ = nullptr;
  const Tensor& last =
      sources_.needs_last_stream() ? stream_to(texts_->layers().size()) : embedded();
  LoadedLayer loaded = ends_of(embedded(), last);
  loaded.on_the_way = std::exchange(on_the_way_, {});
  return loaded;
}

LoadedLayer OpenedModel::outline(const std::string& id) const {
  if (!texts_) return patched(sources_.load(id, nullptr, true));
  const Tensor zeros = texts_->zeros();
  if (id.empty()) return ends_of(zeros, zeros);
  const LayerInput input = texts_->input(texts_->place_of(id), zeros);
  return patched(sources_.load(id, &input, true));
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
  const LayerInput input = texts_->input(number, stream_to(number));
  return sources_.tensors_of(id, &input);
}

LoadedLayer OpenedModel::ends_after(std::size_t layers) {
  last_ = nullptr;
  const Tensor& stream = stream_to(layers);
  LoadedLayer loaded;
  loaded.layer = texts_->ends(embedded(), stream);
  if (const PatchLayer patch = patch_layer())
    loaded.notes = patch(loaded.layer, "", texts_->notes());
  loaded.on_the_way = std::exchange(on_the_way_, {});
  if (auto own = texts_->warnings_of(loaded.notes); !own.empty())
    loaded.on_the_way.push_back({"", std::move(own)});
  return loaded;
}

void OpenedModel::add_input_of(const std::string& id, Fingerprint& fingerprint,
                               std::size_t& added) const {
  if (!texts_) return;
  if (added == 0) texts_->add_to(fingerprint);
  const std::vector<std::string>& layers = texts_->layers();
  for (std::size_t n = 0; n < layers.size() && layers[n] != id; ++n)
    if (n >= added) mha::add_to(fingerprint, outline(layers[n])), added = n + 1;
}

} // namespace mha
