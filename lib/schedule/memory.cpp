#include <mha/schedule/memory.hpp>

#include <mha/schedule/padding.hpp>
#include <mha/schedule/visible.hpp>
#include <mha/system/parallel.hpp>

#include <algorithm>

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
  for (const StageInfo& info : stages())
    if (info.kind == Kind::token) place(info.stage);
  // A given concatenation can be split again.
  Tensor& head_out = tensors_[index_of(Stage::head_out)];
  if (head_out.empty()) head_out = tensors_[index_of(Stage::concat)];
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
  else if (info.inputs.size() == 1)
    tensor = tensors_[index_of(info.inputs[0])];
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

template <class T> Matrix<T> TokenStages<T>::rows_mutable(Stage stage, std::size_t b) const {
  const Matrix<const T> m = rows(stage, b);
  return {const_cast<T*>(m.data), m.rows, m.cols, m.stride};
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
