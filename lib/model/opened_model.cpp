#include <mha/model/opened_model.hpp>

#include <mha/forward/attention.hpp>
#include <mha/model/patcher.hpp>
#include <mha/schedule/observer.hpp>
#include <mha/system/clock.hpp>

#include <algorithm>
#include <utility>

namespace mha {

namespace {

/// Looks at nothing: what is handed on is seen by the layer's pass.
class Unobserved : public Observer {
public:
  StageSet wants() const override { return {}; }
  void observe(const Slice&) override {}
};

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
  return [request = request_, sources = sources_](Layer& layer, const std::string& id,
                                                  const std::vector<Note>& said) {
    return request->patches->patch(layer, id, sources, *request, said);
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

/// Brings the stream to a layer: from where it stands, or from the beginning. A layer that was
/// computed for an observer has left there what it hands on.
const Tensor& OpenedModel::stream_before(std::size_t number) {
  if (stream_.empty() || at_ > number) stream_ = embedded(), at_ = 0, pass_ = nullptr;
  to_ = std::max(to_, number);
  for (; at_ < number; ++at_) {
    LayerTimes& times = times_.emplace_back();
    if (!pass_)
      times.read = seconds_of([&] {
        if (auto own = texts_->warnings_of(load_at(at_, nullptr).notes); !own.empty())
          on_the_way_.push_back({texts_->layers()[at_], std::move(own)});
      });
    finish(times);
    stream_ = std::exchange(pass_, nullptr)->handed_on();
  }
  return stream_;
}

/// Computes what the layer has not handed on yet: all of it, or the texts that were left out.
void OpenedModel::finish(LayerTimes& times) {
  const std::vector<std::size_t> items = pass_->missing();
  if (items.empty()) return;
  Layer layer = pass_->layer();
  layer.pass = pass_;
  Selection selection;
  if (layer.dims.batched) selection.batch = IndexList::of_indices(items, message("<batch>"));
  Unobserved nothing;
  const Plan plan = make_plan(layer, nothing.wants(), selection);
  computed_s +=
      seconds_of([&] { times.phases = compute(std::move(layer), plan, nothing, threads); });
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
  Layer& layer = loaded.layer;
  layer.pass = std::make_shared<LayerPass>(layer, sources_.counts(), is_read_behind(number));
  pass_ = layer.pass->hands_on() ? layer.pass : nullptr;
  return loaded;
}

LoadedLayer OpenedModel::load(const std::string& id, std::vector<Sources::SourceTensor>* parts) {
  if (!texts_) {
    LoadedLayer loaded = patched(sources_.load(id, nullptr, false, parts));
    loaded.layer.pass = std::make_shared<LayerPass>(loaded.layer, sources_.counts(), false);
    return loaded;
  }
  if (id.empty()) return load_ends();
  const std::size_t number = texts_->place_of(id);
  stream_before(number);
  LoadedLayer loaded = load_at(number, parts);
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
  const Tensor& last =
      sources_.needs_last_stream() ? stream_before(texts_->layers().size()) : embedded();
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

std::vector<Sources::SourceTensor> OpenedModel::tensors_of(const std::string& id) {
  if (!texts_) return sources_.tensors_of(id);
  const std::size_t number = texts_->place_of(id);
  const LayerInput input = texts_->input(number, stream_before(number));
  return sources_.tensors_of(id, &input);
}

LoadedLayer OpenedModel::ends_after(std::size_t layers) {
  const Tensor& stream = stream_before(layers);
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
