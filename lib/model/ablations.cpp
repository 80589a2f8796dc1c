#include <mha/model/ablations.hpp>

#include <mha/model/layer_run.hpp>
#include <mha/observe/trace.hpp>
#include <mha/system/one_of.hpp>

#include <algorithm>
#include <cstring>

#include <fmt/ranges.h>

namespace mha {

namespace {

std::vector<Stage> stages_of_parts(const Layer& layer) {
  std::vector<Stage> kept{Stage::head_out, Stage::output};
  if (layer.block->has_feed_forward()) kept.push_back(Stage::mlp_out);
  if (layer.block->supplement.present()) kept.push_back(Stage::layer_add);
  return kept;
}

/// Copies the last rows of a text to another's last rows, as many as both have: B, (heads,) rows,
/// columns.
void copy_ends(Tensor& to, std::size_t text, std::size_t length, const Tensor& from,
               std::size_t other, std::size_t other_length) {
  const Shape& shape = to.shape();
  const std::size_t rows = shape[shape.size() - 2], other_rows = from.shape()[shape.size() - 2],
                    heads = shape.size() == 4 ? shape[1] : 1,
                    row = shape.back() * size_of(to.dtype()),
                    count = std::min(length, other_length);
  for (std::size_t h = 0; h < heads; ++h)
    std::memcpy(to.raw_mutable() + ((text * heads + h) * rows + length - count) * row,
                from.raw() + ((other * heads + h) * other_rows + other_length - count) * row,
                count * row);
}

/// All positions of some heads become what `whole` holds there: texts of unequal lengths have no
/// common number of positions, which a written patch would need.
ResolvedEdit patch_from(const Layer& layer, Stage stage, const std::vector<std::size_t>& heads,
                        const Tensor& whole) {
  const Shape& shape = whole.shape(); // B, (heads,) rows, columns
  const std::size_t all = shape.size() == 4 ? shape[1] : 1,
                    item = shape[shape.size() - 2] * shape.back();
  ResolvedEdit patch;
  patch.stage = stage, patch.text = std::string(name_of(stage)) + " = from the next text";
  patch.strides = {all * item, item, shape.back(), 1};
  patch.value = whole;
  if (!heads.empty() && heads.size() < all) {
    patch.heads = PatchedAxis(heads, all);
    patch.strides[0] = heads.size() * item;
    patch.value = Tensor::uninitialised(whole.dtype(), {shape[0], heads.size(), item});
    const std::size_t bytes = item * size_of(whole.dtype());
    for (std::size_t b = 0; b < shape[0]; ++b)
      for (std::size_t i = 0; i < heads.size(); ++i)
        std::memcpy(patch.value.raw_mutable() + (b * heads.size() + i) * bytes,
                    whole.raw() + (b * all + heads[i]) * bytes, bytes);
  }
  patch.value = convert(patch.value, layer.dtype);
  return patch;
}

/// Whether a place is all positions and columns of its heads.
bool is_of_whole_heads(const StagePlace& place) {
  return place.axis(1).all() && place.axis(2).all();
}

} // namespace

std::vector<StageEdit> counted_set(std::vector<StageEdit> set, std::size_t count) {
  for (StageEdit& edit : set) {
    StagePlace& place = edit.place;
    if (is_of_model(place.stage) || !place.names_layer())
      fail("<together> {}: a stage of a layer expected: layers.N.{}", place.name,
           name_of(place.stage));
    place.count_from_first(count, message("<together> {}", place.name));
    if (place.layers && place.layers->second >= count)
      fail("<together> {}: there is no layer {}: the layers are 0 to {}", place.name,
           place.layers->second, count - 1);
  }
  return set;
}

std::vector<Stage> ablated_stages(const std::vector<StageEdit>& set, const Layer& layer,
                                  std::size_t n) {
  std::vector<Stage> stages{Stage::head_out};
  if (layer.block->has_feed_forward()) stages.push_back(Stage::mlp_out);
  if (layer.block->supplement.present()) stages.push_back(Stage::layer_add);
  for (const StageEdit& edit : set)
    if (edit.place.is_of(n)) add_once(stages, stage_of_place(edit.place, layer));
  return stages;
}

Ablations::Ablations(const TextLayers& layers, const EffectsRequest& request)
    : layers_(layers),
      request_(request),
      set_(counted_set(request.set, layers.count())),
      positions_(positions_of(request.places)) {
  Advance pass;
  pass.threads = request.threads;
  std::optional<Trace> parts;
  pass.observer = [&](const Layer& layer, std::size_t) {
    parts.emplace(layer, stages_of_parts(layer));
    return &*parts;
  };
  pass.arrived = [&](const Residual& at) {
    const std::shared_ptr<const TransformerBlock> block = layer(at.layer - 1).block;
    clean_.push_back({parts->value(Stage::head_out), parts->value(Stage::output),
                      block->has_feed_forward() ? parts->value(Stage::mlp_out) : Tensor(),
                      block->supplement.present() ? parts->value(Stage::layer_add) : Tensor()});
    streams_.push_back(at);
  };
  streams_.push_back(layers.embedded());
  if (request.next) next_ = std::make_unique<Streams>(request.next, request.threads);
  if (request.ablation == Ablation::resample) require_texts();
  advance(layers, streams_.front(), layers.count(), pass);
  rows_ = PredictionRows(ends(), request.places, request.threads);
}

Tensor Ablations::stream_without_heads(std::size_t n, const std::vector<std::size_t>& heads,
                                       std::size_t threads) const {
  Layer changed = layer(n).with(Stage::head_out, clean_[n].head_out);
  changed.patches.add(patch_of(n, changed, Stage::head_out, clean_[n].head_out, heads));
  return stream_from(n, changed, threads);
}

Tensor Ablations::stream_without(std::size_t n, Stage stage, std::size_t threads) const {
  Layer changed = layer(n).with(Stage::output, clean_[n].output);
  const Tensor& clean = stage == Stage::layer_add ? clean_[n].layer_add : clean_[n].mlp_out;
  changed.patches.add(patch_of(n, changed, stage, clean, {}));
  return stream_from(n, changed, threads);
}

Tensor Ablations::stream_with_weights(std::size_t n, const Tensor& weights,
                                      std::size_t threads) const {
  Layer changed = layer(n).with(Stage::output, clean_[n].output);
  changed.patches.add(patch_from(changed, Stage::expert_weights, {}, weights));
  return stream_from(n, changed, threads);
}

Tensor Ablations::stream_without_set() const {
  std::size_t first = layers_.count();
  for (const StageEdit& edit : set_)
    first = std::min(first, edit.place.every_layer ? 0 : edit.place.layers->first);
  Advance pass;
  pass.threads = request_.threads;
  std::vector<std::vector<IsRead>> is_read(set_.size());
  pass.patch = [&](Layer& layer, std::size_t n) {
    for (std::size_t i = 0; i < set_.size(); ++i) {
      if (!set_[i].place.is_of(n)) continue;
      ResolvedEdit patch = patch_of(n, layer, set_[i]);
      is_read[i].push_back(patch.is_read);
      layer.patches.add(std::move(patch));
    }
  };
  const Residual last = advance(layers_, streams_[first], layers_.count(), pass);
  for (std::size_t i = 0; i < set_.size(); ++i)
    if (!is_any_read(is_read[i]))
      fail("<together> {}: nothing that follows reads it; choose a stage that another is computed "
           "from",
           set_[i].place.name);
  return last.x;
}

/// The values that replace a stage, batch axis first: a tensor whose mean is taken, or the next
/// texts' values.
Tensor Ablations::replacement(std::size_t n, Stage stage, const Tensor& clean) const {
  if (request_.ablation == Ablation::mean && request_.means) return request_.means->mean(n, stage);
  if (request_.ablation != Ablation::resample) return clean;
  const std::lock_guard hold(replacing_);
  Tensor& kept = replacements_[{n, stage}];
  if (kept.empty()) kept = of_next_texts(n, stage, clean);
  return kept;
}

Tensor Ablations::of_next_texts(std::size_t n, Stage stage, const Tensor& clean) const {
  const Tensor other = next_ ? next_->stage(n, stage) : clean;
  const std::vector<std::size_t>&own = layers_.texts().lengths(),
        &theirs = (next_ ? next_->layers() : layers_).texts().lengths();
  Tensor values = Tensor::uninitialised(clean.dtype(), clean.shape());
  std::memcpy(values.raw_mutable(), clean.raw(), clean.bytes());
  const Kind kind = info_of(stage).kind;
  const Shape& shape = clean.shape(); // B, (heads,) rows, columns
  const std::size_t B = own.size(), T = streams_[n].x.shape()[1];
  const bool by_token = kind != Kind::map && kind != Kind::row && shape[shape.size() - 2] == T;
  for (std::size_t b = 0; b < B; ++b) {
    const std::size_t from = next_ ? b : (b + 1) % B;
    if (by_token) {
      copy_ends(values, b, own[b], other, from, theirs[from]);
      continue;
    }
    if (own[b] != theirs[from] || other.bytes() / theirs.size() != clean.bytes() / B)
      fail("<together>: {} has an axis of keys, and text {} has {}, the next one {}; it needs "
           "texts of "
           "equal lengths",
           name_of(stage), request_.first_text + b, counted(own[b], "tokens"), theirs[from]);
    const std::size_t item = clean.bytes() / B;
    std::memcpy(values.raw_mutable() + b * item, other.raw() + from * item, item);
  }
  return values;
}

void Ablations::require_texts() const {
  const std::vector<std::size_t>& lengths = layers_.texts().lengths();
  if (!next_ && lengths.size() < 2)
    fail("<ablate> resample takes the next text's values, and this is one text; give several");
  if (request_.align_end) return;
  std::vector<std::size_t> all = lengths;
  if (next_) std::ranges::copy(next_->layers().texts().lengths(), std::back_inserter(all));
  require_equal_lengths(all);
}

/// A place of the set, replaced.
ResolvedEdit Ablations::patch_of(std::size_t n, const Layer& layer, const StageEdit& edit) const {
  const auto values = [&](Stage stage) {
    const bool known = request_.ablation == Ablation::mean && request_.means;
    return replacement(n, stage,
                       known ? Tensor() : whole_stage(this->layer(n), stage, request_.threads));
  };
  const Stage stage = stage_of_place(edit.place, layer);
  if (request_.ablation == Ablation::resample && request_.align_end &&
      is_of_whole_heads(edit.place))
    return patch_from(layer, stage, axes_of(edit.place, layer, stage, edit.text).heads,
                      values(stage));
  return mha::patch_of(edit, layer, n, [&](Stage of, const std::string&) { return values(of); });
}

/// Heads of a stage of layer n, or all of it, replaced: by zero, its mean, or the next text's.
ResolvedEdit Ablations::patch_of(std::size_t n, const Layer& layer, Stage stage,
                                 const Tensor& clean, const std::vector<std::size_t>& heads) const {
  const auto values = [&] { return replacement(n, stage, with_batch_axis(layer, clean)); };
  if (request_.ablation == Ablation::resample) return patch_from(layer, stage, heads, values());
  StagePlace place;
  place.name = name_of(stage), place.stage = stage;
  if (!heads.empty())
    place.axes = {AxisPositions(std::vector<std::int64_t>(heads.begin(), heads.end()))};
  const StageEdit edit =
      StageEdit::of(std::move(place), PatchOp::set,
                    request_.ablation == Ablation::zero ? EditValue::zero() : EditValue::of_mean());
  return mha::patch_of(edit, layer, n, [&](Stage, const std::string&) { return values(); });
}

/// The last stream of a run from a changed layer on. The last layer computes only the rows of the
/// predictions.
Tensor Ablations::stream_from(std::size_t n, const Layer& changed, std::size_t threads) const {
  const bool is_last = n + 1 == layers_.count();
  LayerRun run(changed, nullptr, outputs_of(layers_, n, false),
               is_last ? positions_ : std::vector<std::size_t>());
  Residual after = streams_[n];
  move_past(layers_, run, false, threads, nullptr, after);
  Advance pass;
  pass.threads = threads;
  pass.positions = positions_;
  return advance(layers_, std::move(after), layers_.count(), pass).x;
}

} // namespace mha
