#include <mha/model/run.hpp>

#include <mha/forward/rotary_kinds.hpp>
#include <mha/layer/graph.hpp>
#include <mha/model/layer_run.hpp>
#include <mha/observe/several.hpp>
#include <mha/observe/trace.hpp>
#include <mha/system/clock.hpp>
#include <mha/system/one_of.hpp>

#include <algorithm>
#include <iterator>
#include <utility>

namespace mha {

TextLayers::TextLayers(Sources sources, std::shared_ptr<const Texts> texts,
                       std::vector<TensorEdit> edits, PatchLayer patch, bool keeps)
    : sources_(std::move(sources)),
      texts_(std::move(texts)),
      edits_(std::move(edits)),
      patch_(std::move(patch)),
      keeps_(keeps),
      embedded_for_(texts_->layers().size()),
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

LoadedLayer TextLayers::made(std::size_t n, const LayerInput& input, bool keeps,
                             std::vector<Sources::SourceTensor>* parts) const {
  LoadedLayer loaded = sources_.load(texts_->layers()[n], &input, keeps, parts);
  loaded.layer.misses_rollout = n > 0;
  if (const Tensor embedded = embedded_for(n); !embedded.empty()) {
    loaded.layer.given[index_of(Stage::layer_embed)] = embedded;
    loaded.layer.given_set.add(Stage::layer_embed);
  }
  if (patch_)
    std::ranges::move(patch_(loaded.layer, loaded.id, loaded.notes),
                      std::back_inserter(loaded.notes));
  for (const TensorEdit& edit : edits_)
    if (edit.layer == n) loaded.layer = loaded.layer.with(edit.name, edit.tensor);
  return loaded;
}

/// While `making_` is held.
void TextLayers::note(const LoadedLayer& loaded) const {
  if (auto warnings = texts_->warnings_of(loaded.notes); !warnings.empty())
    layer_warnings_.push_back({loaded.id, std::move(warnings)});
  for (const Note& note : loaded.notes) add_once(notes_, note);
}

namespace {

std::string source_of_keys(const Texts& texts, std::size_t layer) {
  return fmt::format("the keys of layer {}", texts.layers()[layer]);
}

/// Heads side by side, B, T, H · d, as a stage has them: (B,) H, T, d.
Tensor by_head(const Tensor& packed, std::size_t d, bool batched) {
  const Shape& shape = packed.shape();
  const Tensor heads =
      permuted(packed.reshaped({shape[0], shape[1], shape[2] / d, d}), {0, 2, 1, 3});
  return batched ? heads : heads.at(0);
}

} // namespace

/// The input of a layer for its sizes: keys and values of another layer are zeros. While `making_`
/// is held.
LayerInput TextLayers::outline_input(std::size_t n, const LayerPast& past) const {
  LayerInput input = texts_->input(n, texts_->zeros(), past);
  if (const std::optional<std::size_t> source = texts_->model().keys_of(n)) {
    std::optional<LayerPast>& zeros = zeros_of_keys_[*source];
    if (!zeros) {
      const Layer giver =
          made(*source, texts_->input(*source, texts_->zeros()), true, nullptr).layer;
      zeros = {Tensor(giver.dtype, giver.shape_of(Stage::k_rope)),
               Tensor(giver.dtype, giver.shape_of(Stage::v_norm))};
    }
    input.shared = *zeros, input.shared_source = source_of_keys(*texts_, *source);
  }
  return input;
}

LayerInput TextLayers::input(const Residual& before, const LayerPast& past) const {
  LayerInput input = texts_->input(before.layer, before.x, past);
  if (const std::optional<std::size_t> source = texts_->model().keys_of(before.layer)) {
    const SharedKeys& keys = before.keys.at(*source);
    input.shared = {by_head(keys.k, keys.d_k, texts_->batched()),
                    by_head(keys.v, keys.d_v, texts_->batched())};
    input.shared_source = source_of_keys(*texts_, *source);
  }
  return input;
}

/// The tokens' embeddings for layer n; empty where the model has none. While `making_` is held.
Tensor TextLayers::embedded_for(std::size_t n) const {
  if (texts_->model().layer_embedding().width == 0) return {};
  if (!keeps_) return texts_->embedded_for(n, embedding_of_texts());
  if (embedded_for_[n].empty()) embedded_for_[n] = texts_->embedded_for(n, embedding_of_texts());
  return embedded_for_[n];
}

/// Gives a kept layer, which has zeros, another layer's keys and values. While `making_` is held.
void TextLayers::give_to_kept(Layer& layer, const Residual& before) const {
  const std::optional<std::size_t> source = texts_->model().keys_of(before.layer);
  if (!source) return;
  const SharedKeys& keys = before.keys.at(*source);
  layer.given[index_of(Stage::k_rope)] = keys.k;
  layer.given[index_of(Stage::v_norm)] = keys.v;
}

LoadedLayer TextLayers::load(const Residual& before,
                             std::vector<Sources::SourceTensor>* parts) const {
  const std::lock_guard hold(making_);
  return made(before.layer, input(before), false, parts);
}

LoadedLayer TextLayers::outline(std::size_t n) const {
  const std::lock_guard hold(making_);
  return made(n, outline_input(n), true, nullptr);
}

/// Layer n, which is kept; its inputs have no numbers. While `making_` is held.
const Layer& TextLayers::kept(std::size_t n, const LayerPast& past) const {
  std::optional<Layer>& kept = made_[n];
  if (!kept) {
    LoadedLayer loaded = made(n, outline_input(n, past), true, nullptr);
    note(loaded);
    kept = std::move(loaded.layer);
    kept->X = {}, kept->k_past = {}, kept->v_past = {};
  }
  return *kept;
}

Layer TextLayers::sized(std::size_t n) const {
  const std::lock_guard hold(making_);
  if (!keeps_) return made(n, outline_input(n), true, nullptr).layer;
  Layer layer = kept(n, {});
  layer.X = texts_->zeros();
  return layer;
}

Layer TextLayers::layer(const Residual& before, const LayerPast& past) const {
  const std::lock_guard hold(making_);
  if (!keeps_) {
    LoadedLayer loaded = made(before.layer, input(before, past), false, nullptr);
    note(loaded);
    return std::move(loaded.layer);
  }
  Layer layer = kept(before.layer, past);
  layer.X = before.x;
  if (!past.k.empty()) layer.k_past = past.k, layer.v_past = past.v;
  give_to_kept(layer, before);
  return layer;
}

LoadedLayer TextLayers::load_ends(const Tensor& embedded, const Tensor& x) const {
  const std::lock_guard hold(making_);
  std::shared_ptr<const ModelEnds> ends;
  const LayerInput input = texts_->input_of_ends(embedded, x, ends);
  LoadedLayer loaded = sources_.load_ends(input, std::move(ends));
  if (patch_)
    std::ranges::move(patch_(loaded.layer, "", input.notes), std::back_inserter(loaded.notes));
  return loaded;
}

Layer TextLayers::ends(const Tensor& x) const {
  const std::lock_guard hold(making_);
  std::optional<Layer>& made = made_.back();
  if (!made) {
    made = texts_->ends(embedding_of_texts(), embedding_of_texts());
    const std::vector<Note> noted =
        patch_ ? patch_(*made, "", texts_->notes()) : std::vector<Note>();
    if (auto own = texts_->warnings_of(noted); !own.empty())
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

std::vector<LayerWarnings> TextLayers::take_layer_warnings() const {
  const std::lock_guard hold(making_);
  return std::exchange(layer_warnings_, {});
}

namespace {

/// Keeps the keys and values of a layer for the tokens that come later.
class PastOf : public Observer {
public:
  explicit PastOf(const Layer& layer)
      : layer_(layer),
        keys_(inputs_of(layer, Stage::scores).back()),
        values_(inputs_of(layer, Stage::head_out).back()),
        kept_(layer, {keys_, values_}) {
    if (!layer.settings.causal || !layer.X_k.empty())
      fail("a past is of causal self-attention: tokens of other layers see those that come later");
    if (turns_by_length(layer.settings))
      fail(
          "<rope_scaling> {} turns all keys by the text's length: none can be kept for more tokens",
          find_setting("rope_scaling")->get(layer.settings));
  }

  StageSet wants() const override { return kept_.wants(); }
  void observe(const Slice& block) override { kept_.observe(block); }
  LayerPast take() {
    return {with_batch_axis(layer_, kept_.value(keys_)),
            with_batch_axis(layer_, kept_.value(values_))};
  }

private:
  Layer layer_;
  Stage keys_, values_;
  Trace kept_;
};

} // namespace

StageSet outputs_of(const TextLayers& layers, std::size_t n, bool rolls) {
  StageSet outputs{Stage::resid_post};
  if (rolls) outputs.add(Stage::rollout);
  if (layers.texts().model().gives_keys(n)) outputs.add(Stage::k_rope).add(Stage::v_norm);
  return outputs;
}

void move_past(const TextLayers& layers, LayerRun& run, bool rolls, std::size_t threads,
               PhaseTimes* times, Residual& stream) {
  stream.x = run.stream(threads, times);
  if (rolls) stream.rollout = run.rollout(threads);
  if (layers.texts().model().gives_keys(stream.layer))
    stream.keys[stream.layer] = {run.output(Stage::k_rope, threads),
                                 run.output(Stage::v_norm, threads), run.dims().d_k,
                                 run.dims().d_v};
  ++stream.layer;
}

Residual advance(const TextLayers& layers, Residual from, std::size_t to, const Advance& advance) {
  while (from.layer < to) {
    const std::size_t n = from.layer;
    LayerPast past;
    if (advance.past) advance.past->resize(layers.count()), past = (*advance.past)[n];
    LayerTimes times;
    Layer layer;
    times.made_s = seconds_of([&] { layer = layers.layer(from, past); });
    layer.rollout_before = from.rollout;
    if (advance.patch) advance.patch(layer, n);
    Selection selection; // also of what is observed of the last layer
    const bool is_last = n + 1 == to;
    if (is_last && !advance.positions.empty())
      selection.query = IndexList::of_indices(advance.positions, message("<query>"));
    LayerRun run(layer, layers.counts(), outputs_of(layers, n, advance.rolls),
                 is_last ? advance.positions : std::vector<std::size_t>());
    Several observers;
    std::optional<PastOf> own;
    if (advance.past) observers.add(own.emplace(layer));
    if (Observer* const one = advance.observer ? advance.observer(layer, n) : nullptr)
      observers.add(*one);
    times.computed_s = seconds_of([&] {
      if (observers.wants().any()) {
        const Plan plan = make_plan(layer, observers.wants(), selection);
        times.phases = run.compute(std::move(layer), plan, observers, advance.threads);
      }
      layer = {}; // so that the run releases tensors that it has read
      move_past(layers, run, advance.rolls, advance.threads, &times.phases, from);
    });
    if (own) (*advance.past)[n] = own->take();
    if (advance.timed) advance.timed(n, times);
    if (advance.arrived) advance.arrived(from);
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
  return number < layers_->count() ? layers_->layer(at) : layers_->ends(at.x);
}

Tensor Streams::stage(std::size_t number, Stage stage) {
  return whole_stage(layer(number), stage, threads_);
}

} // namespace mha
