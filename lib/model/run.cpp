#include <mha/model/run.hpp>

#include <mha/forward/attention.hpp>
#include <mha/observe/several.hpp>
#include <mha/observe/trace.hpp>

#include <algorithm>

namespace mha {

TextLayers::TextLayers(Sources sources, std::shared_ptr<ModelPass> texts, std::vector<Edit> edits)
    : sources_(std::move(sources)),
      texts_(std::move(texts)),
      edits_(std::move(edits)),
      made_(texts_->layers().size() + 1) {}

Residual TextLayers::embedded() const {
  const std::lock_guard hold(making_);
  return {texts_->embedded(), 0};
}

Layer TextLayers::layer(std::size_t n, const Tensor& x) const {
  const std::lock_guard hold(making_);
  std::optional<Layer>& made = made_[n];
  if (!made) {
    LoadedLayer loaded = sources_.outline(texts_->layers()[n]);
    if (auto warnings = texts_->warnings_of(loaded.notes); !warnings.empty())
      layer_warnings_.push_back({texts_->layers()[n], std::move(warnings)});
    for (Note& note : loaded.notes)
      if (std::ranges::find(notes_, note) == notes_.end()) notes_.push_back(std::move(note));
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
    made = texts_->ends_of(texts_->embedded());
    if (auto own = texts_->warnings_of(sources_.put_patches(*made, "")); !own.empty())
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

std::vector<Inputs::OfLayer> TextLayers::layer_warnings() const {
  const std::lock_guard hold(making_);
  return layer_warnings_;
}

Residual advance(const TextLayers& layers, Residual from, std::size_t to, const Advance& advance) {
  for (; from.layer < to; ++from.layer) {
    Layer layer = layers.layer(from.layer, from.x);
    if (advance.patch) advance.patch(layer, from.layer);
    Trace stream(layer, {Stage::resid_post});
    Several all;
    all.add(stream);
    if (Observer* const other = advance.observer ? advance.observer(layer, from.layer) : nullptr)
      all.add(*other);
    const Shape shape = from.x.shape();
    const Plan plan = make_plan(layer, all.wants());
    compute(layer, plan, all, advance.threads);
    ++layers.counts().computed;
    from.x = std::move(stream).value(Stage::resid_post).reshaped(shape);
    if (advance.arrived) advance.arrived({from.x, from.layer + 1});
  }
  return from;
}

} // namespace mha
