#include <mha/model/run.hpp>

#include <mha/model/layer_run.hpp>
#include <mha/observe/trace.hpp>
#include <mha/system/one_of.hpp>

namespace mha {

TextLayers::TextLayers(Sources sources, std::shared_ptr<const Texts> texts, std::vector<Edit> edits,
                       PatchLayer patch)
    : sources_(std::move(sources)),
      texts_(std::move(texts)),
      edits_(std::move(edits)),
      patch_(std::move(patch)),
      made_(texts_->layers().size() + 1) {}

/// While `making_` is held.
const Tensor& TextLayers::embedding_of_texts() const {
  if (embedded_.empty()) embedded_ = texts_->embedded();
  return embedded_;
}

Residual TextLayers::embedded() const {
  const std::lock_guard hold(making_);
  return {embedding_of_texts(), 0};
}

Layer TextLayers::layer(std::size_t n, const Tensor& x) const {
  const std::lock_guard hold(making_);
  std::optional<Layer>& made = made_[n];
  if (!made) {
    const LayerInput input = texts_->input(n, texts_->zeros());
    LoadedLayer loaded = sources_.load(texts_->layers()[n], &input, true);
    if (patch_)
      std::ranges::move(patch_(loaded.layer, loaded.id, loaded.notes),
                        std::back_inserter(loaded.notes));
    if (auto warnings = texts_->warnings_of(loaded.notes); !warnings.empty())
      layer_warnings_.push_back({texts_->layers()[n], std::move(warnings)});
    for (Note& note : loaded.notes) add_once(notes_, std::move(note));
    made = std::move(loaded.layer);
    for (const Edit& edit : edits_)
      if (edit.layer == n) made = made->with(edit.name, edit.tensor);
    made->X = {};
  }
  Layer layer = *made;
  layer.X = x;
  return layer;
}

Layer TextLayers::ends(const Tensor& x) const {
  const std::lock_guard hold(making_);
  std::optional<Layer>& made = made_.back();
  if (!made) {
    made = texts_->ends(embedding_of_texts(), embedding_of_texts());
    const std::vector<Note> said =
        patch_ ? patch_(*made, "", texts_->notes()) : std::vector<Note>();
    if (auto own = texts_->warnings_of(said); !own.empty())
      layer_warnings_.push_back({"", std::move(own)});
  }
  Layer layer = *made;
  ModelEnds ends = *layer.ends;
  ends.stream = x;
  layer.ends = std::make_shared<const ModelEnds>(std::move(ends));
  return layer;
}

std::vector<Note> TextLayers::notes() const {
  const std::lock_guard hold(making_);
  return notes_;
}

std::vector<LayerWarnings> TextLayers::layer_warnings() const {
  const std::lock_guard hold(making_);
  return layer_warnings_;
}

Tensor stream_behind(const Layer& layer, const std::vector<std::size_t>& positions,
                     std::size_t threads) {
  return LayerRun(layer, nullptr, true, positions).stream(threads);
}

Residual advance(const TextLayers& layers, Residual from, std::size_t to, const Advance& advance) {
  for (; from.layer < to; ++from.layer) {
    Layer layer = layers.layer(from.layer, from.x);
    if (advance.patch) advance.patch(layer, from.layer);
    Selection selection; // what is observed of the last layer, too
    const bool is_last = from.layer + 1 == to;
    if (is_last && !advance.positions.empty())
      selection.query = IndexList::of_indices(advance.positions, message("<query>"));
    LayerRun run(layer, layers.counts(), true,
                 is_last ? advance.positions : std::vector<std::size_t>());
    PhaseTimes times;
    if (Observer* const observer =
            advance.observer ? advance.observer(layer, from.layer) : nullptr) {
      const Plan plan = make_plan(layer, observer->wants(), selection);
      times = run.compute(std::move(layer), plan, *observer, advance.threads);
    }
    from.x = run.stream(advance.threads, &times);
    if (advance.timed) advance.timed(from.layer, times);
    if (advance.arrived) advance.arrived({from.x, from.layer + 1});
  }
  return from;
}

Residual Streams::before(std::size_t layer) {
  const std::lock_guard hold(lock_);
  if (streams_.empty()) streams_.push_back(layers_->embedded());
  if (streams_.size() <= layer) {
    Advance keep;
    keep.threads = threads_;
    keep.arrived = [&](const Residual& at) { streams_.push_back(at); };
    advance(*layers_, streams_.back(), layer, keep);
  }
  return streams_[layer];
}

Layer Streams::layer(std::size_t number) {
  const Residual at = before(number);
  return number < layers_->count() ? layers_->layer(number, at.x) : layers_->ends(at.x);
}

Tensor Streams::stage(std::size_t number, Stage stage) {
  return whole_stage(layer(number), stage, threads_);
}

} // namespace mha
