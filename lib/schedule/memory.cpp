#include <mha/schedule/memory.hpp>

#include <mha/layer/graph.hpp>
#include <mha/layer/other_inputs.hpp>
#include <mha/schedule/padding.hpp>
#include <mha/schedule/visible.hpp>
#include <mha/system/parallel.hpp>

#include <algorithm>
#include <utility>

namespace mha {

template <class T> Matrix<const T> matrix_of(const Tensor& tensor, std::size_t b) {
  const Shape& shape = tensor.shape();
  const std::size_t cols = shape.back(), rows = shape[shape.size() - 2];
  return {tensor.as<T>().data() + b * rows * cols, rows, cols, cols};
}

ItemRows::ItemRows(const Layer& layer, Dim tokens) {
  for (std::size_t b = 0; b < layer.dims.B; ++b)
    first_.push_back(first_.back() + (tokens == Dim::T   ? layer.length_of(b)
                                      : tokens == Dim::S ? keys_of(layer, b) - layer.dims.past
                                                         : computed_keys(layer, b)));
}

template <class T> TokenStages<T>::TokenStages(const Layer& layer, const Plan& plan)
    : layer_(layer),
      plan_(plan),
      items_{ItemRows(layer, Dim::T), ItemRows(layer, Dim::S), ItemRows(layer, Dim::S_all)} {
  for (const StageInfo& info : stages()) {
    const Stage stage = in_turn(layer, info.stage);
    if (info.kind == Kind::token)
      is_stream(stage) || is_after_output(stage) ? place_of_stream(stage) : place(stage);
  }
  // A given concatenation can be split again.
  Tensor& of_heads = tensors_[index_of(last_of_heads(layer))];
  if (of_heads.empty()) of_heads = tensors_[index_of(Stage::concat)];
  for (const Stage stage : plan.wanted)
    if (is_after_output(stage) && places_.empty()) places_ = places_of(layer, plan, stage);
}

template <class T> const ItemRows& TokenStages<T>::items_of(Stage stage) const {
  const std::vector<Dim>& letters = info_of(stage).letters;
  const Dim tokens = letters[letters.size() - 2];
  return items_[tokens == Dim::T ? 0 : tokens == Dim::S ? 1 : 2];
}

template <class T> Matrix<const T> TokenStages<T>::rows(Stage stage, std::size_t b) const {
  const Tensor& tensor = tensors_[index_of(stage)];
  return tensor.rank() == 3 ? matrix_of<T>(tensor, b) : items_of(stage).template of<T>(tensor, b);
}

/// Gives a token stage its memory: the given tensor, that of the step before where the two are the
/// same, or new.
template <class T> void TokenStages<T>::place(Stage stage) {
  const StageInfo& info = info_of(stage);
  const std::vector<Dim>& letters = info.letters;
  Tensor& tensor = tensors_[index_of(stage)];
  const bool heads = letters.size() == 3;
  const Dims& dims = layer_.dims;
  const Shape shape{dims.B, dims.size_of(letters[heads ? 1 : 0]),
                    (heads ? dims.size_of(letters[0]) : 1) * dims.size_of(letters.back())};
  const bool is_input = stage == Stage::x && layer_.settings.input_norm == InputNorm::none &&
                        !layer_.patches.has(stage);
  const bool is_step_before = stage == Stage::concat || !contains(plan_.computed, stage);
  if (layer_.has_given(stage))
    tensor = layer_.given[index_of(stage)].reshaped(shape);
  else if (is_input && !layer_.X.empty())
    tensor = layer_.X.reshaped(shape);
  else if (!is_step_before)
    tensor = Tensor::uninitialised(layer_.dtype, {items_of(stage).all(), shape[2]});
  else if (const std::vector<Stage>& before = steps_before(layer_, stage);
           !before.empty() && (info.inputs.size() == 1 || stage == Stage::gated))
    tensor = tensors_[index_of(before.front())];
}

/// The streams that a layer, or the model's ends, begin with; given stages after output.
template <class T> void TokenStages<T>::place_of_stream(Stage stage) {
  using enum Stage;
  const Dims& dims = layer_.dims;
  const ModelEnds* const ends = layer_.ends.get();
  const bool is_last = stage == resid_post || stage == final;
  const Tensor& tensor = layer_.has_given(stage) ? layer_.given[index_of(stage)]
                         : stage == resid_pre && contains(plan_.needed, stage) ? layer_.X
                         : ends && stage == embed                              ? ends->embed
                         : ends && is_last                                     ? ends->stream
                                                                               : Tensor();
  if (!tensor.empty())
    tensors_[index_of(stage)] =
        tensor.reshaped({dims.B, dims.T, dims.size_of(info_of(stage).letters.back())});
}

template <class T> void TokenStages<T>::make_room(Stage stage) {
  const Dim last = info_of(stage).letters.back();
  // The dense layer of a masked model's head is stored where a layer's feed-forward is.
  const std::size_t width =
      layer_.ends && last == Dim::d_ff ? layer_.ends->head.dense.out() : layer_.dims.size_of(last);
  opened_[index_of(stage)] = Tensor::uninitialised(layer_.dtype, {open_.count, width});
}

StageSet stages_read(const Layer& layer, Stage stage) {
  StageSet read;
  for (Stage input : info_of(stage).inputs) read.add(input);
  for (Stage input : steps_before(layer, stage)) read.add(input);
  for (Stage input : inputs_of(layer, stage)) read.add(input);
  // What follows the last layer begins with its stream.
  if (stage == Stage::final) read.add(Stage::resid_post);
  // A position bias may be made of queries and keys.
  if (stage == Stage::biased && !layer.relative_key.empty())
    read |= StageSet{in_turn(layer, Stage::q_rope), Stage::k_all};
  return read;
}

Tensor own_copy(const Tensor& tensor) {
  Tensor copy = Tensor::uninitialised(tensor.dtype(), tensor.shape());
  std::copy_n(tensor.raw(), tensor.bytes(), copy.raw_mutable());
  return copy;
}

template <class T> void TokenStages<T>::make_own(Stage stage) {
  Tensor& tensor = tensors_[index_of(stage)];
  tensor = own_copy(tensor);
}

template <class T> Matrix<const T> TokenStages<T>::rows(Stage stage, const Tile& tile) const {
  if (const Tensor& opened = opened_[index_of(stage)]; !opened.empty())
    return matrix_of<T>(opened).rows_from(tile.first - open_.first, tile.count);
  if (is_after_output(stage) && tensors_[index_of(stage)].empty())
    return rows(info_of(stage).inputs.front(), tile);
  return rows(stage, tile.batch).rows_from(tile.first, tile.count);
}

namespace {

template <class T> Matrix<T> mutable_rows(Matrix<const T> m) {
  return {const_cast<T*>(m.data), m.rows, m.cols, m.stride};
}

} // namespace

template <class T> Matrix<T> TokenStages<T>::rows_mutable(Stage stage, std::size_t b) const {
  return mutable_rows(rows(stage, b));
}

template <class T> Matrix<T> TokenStages<T>::rows_mutable(Stage stage, const Tile& tile) const {
  return mutable_rows(rows(stage, tile));
}

template <class T>
void TokenStages<T>::show_open(Stage stage, Observer& observer, std::size_t threads) const {
  if (!contains(plan_.wanted, stage)) return;
  // A row of logits is long enough that what is made of some rows fills a thread.
  constexpr std::size_t numbers_together = 1 << 20;
  const std::size_t batch = open_.batch, end = open_.first + open_.count,
                    width = std::max<std::size_t>(1, rows(stage, open_).cols),
                    height = std::max<std::size_t>(1, numbers_together / width);
  auto place = std::ranges::partition_point(places_, [&](const Place& before) {
    return std::pair(before.batch, before.token + before.count) <= std::pair(batch, open_.first);
  });
  std::vector<Tile> runs;
  for (; place != places_.end() && place->batch == batch && place->token < end; ++place) {
    const std::size_t first = std::max(place->token, open_.first);
    runs.push_back({batch, first, std::min(place->token + place->count, end) - first, {}});
  }
  const std::vector<Tile> pieces = tiles_of_height(runs, height);
  parallel_for(pieces.size(), threads, [&](std::size_t i) {
    mha::show(observer, layer_, stage, {batch, 0, pieces[i].first, pieces[i].count},
              rows(stage, pieces[i]));
  });
}

template <class T>
void TokenStages<T>::show(Stage stage, Observer& observer, std::size_t threads) const {
  if (!contains(plan_.wanted, stage)) return;
  const std::size_t width = layer_.dims.size_of(info_of(stage).letters.back());
  const std::vector<Place> places = places_of(layer_, plan_, stage);
  parallel_for(places.size(), threads, [&](std::size_t i) {
    Place place = places[i];
    place.count = own_rows(layer_, stage, place);
    if (place.count == 0) return;
    mha::show(observer, layer_, stage, place,
              rows(stage, place.batch)
                  .rows_from(place.token, place.count)
                  .cols_from(place.head * width, width));
  });
}

template <class T> void show(Observer& observer, const Layer& layer, Stage stage,
                             const Place& place, Matrix<const T> values) {
  Slice block;
  block.stage = stage;
  block.batch = place.batch, block.head = place.head, block.token = place.token;
  if (!layer.lengths.empty()) block.length = layer.lengths[place.batch];
  const auto stride = static_cast<std::ptrdiff_t>(values.stride);
  block.values = {layer.dtype,
                  reinterpret_cast<const std::byte*>(values.data),
                  {values.rows, values.cols},
                  {stride, 1}};
  if (info_of(stage).letters.size() == 3) { // of one head
    block.values.shape.insert(block.values.shape.begin(), 1);
    block.values.strides.insert(block.values.strides.begin(), stride);
  }
  observer.observe(block);
}

template Matrix<const float> matrix_of(const Tensor&, std::size_t);
template Matrix<const double> matrix_of(const Tensor&, std::size_t);
template class TokenStages<float>;
template class TokenStages<double>;
template void show(Observer&, const Layer&, Stage, const Place&, Matrix<const float>);
template void show(Observer&, const Layer&, Stage, const Place&, Matrix<const double>);

} // namespace mha
