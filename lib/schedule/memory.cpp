#include <mha/schedule/memory.hpp>

#include <mha/system/parallel.hpp>

#include <algorithm>

namespace mha {

template <class T> Matrix<const T> matrix_of(const Tensor& tensor, std::size_t b) {
  const Shape& shape = tensor.shape();
  const std::size_t cols = shape.back(), rows = shape[shape.size() - 2];
  return {tensor.as<T>().data() + b * rows * cols, rows, cols, cols};
}

template <class T> TokenStages<T>::TokenStages(const Layer& layer, const Plan& plan)
    : layer_(layer), plan_(plan) {
  for (const StageInfo& info : stages())
    if (info.kind == Kind::token) place(info.stage);
  // A given concatenation can be split again.
  Tensor& head_out = tensors_[index_of(Stage::head_out)];
  if (head_out.empty()) head_out = tensor(Stage::concat);
}

/// Gives a token stage its memory: the given tensor, that of the step before where the two are the
/// same, or new.
template <class T> void TokenStages<T>::place(Stage stage) {
  const StageInfo& info = info_of(stage);
  const std::vector<Letter>& letters = info.letters;
  Tensor& tensor = tensors_[index_of(stage)];
  const bool heads = letters.size() == 3;
  const Dims& dims = layer_.dims;
  const Shape shape{dims.B, dims.size_of(letters[heads ? 1 : 0]),
                    (heads ? dims.size_of(letters[0]) : 1) * dims.size_of(letters.back())};
  const bool is_input = stage == Stage::x && layer_.settings.input_norm == InputNorm::none;
  const bool is_step_before = stage == Stage::concat || !contains(plan_.computed, stage);
  if (layer_.has_given(stage))
    tensor = layer_.given[index_of(stage)].reshaped(shape);
  else if (is_input)
    tensor = layer_.X;
  else if (!is_step_before)
    tensor = Tensor::uninitialised(layer_.dtype, shape);
  else if (info.inputs.size() == 1)
    tensor = tensors_[index_of(info.inputs[0])];
}

template <class T> Matrix<T> TokenStages<T>::rows_mutable(Stage stage, std::size_t b) const {
  const Matrix<const T> m = rows(stage, b);
  return {const_cast<T*>(m.data), m.rows, m.cols, m.stride};
}

template <class T>
void TokenStages<T>::show(Stage stage, Observer& observer, std::size_t threads) const {
  if (!contains(plan_.wanted, stage)) return;
  const std::vector<Letter>& letters = info_of(stage).letters;
  const bool with_heads = letters.size() == 3;
  const std::size_t width = layer_.dims.size_of(letters.back());
  const std::vector<Place> places = places_of(layer_, plan_, stage);
  parallel_for(places.size(), threads, [&](std::size_t i) {
    const auto& [b, head, first, n] = places[i];
    const Matrix<const T> values =
        rows(stage, b).rows_from(first, n).cols_from(head * width, width);
    const auto stride = static_cast<std::ptrdiff_t>(values.stride);
    observer.observe(
        with_heads ? block_of(layer_, stage, b, head, first, values.data, {1, n, width},
                              {stride, stride, 1})
                   : block_of(layer_, stage, b, 0, first, values.data, {n, width}, {stride, 1}));
  });
}

template <class T> Block block_of(const Layer& layer, Stage stage, std::size_t b, std::size_t head,
                                  std::size_t token, const T* values, Shape shape,
                                  std::vector<std::ptrdiff_t> strides) {
  Block block;
  block.stage = stage, block.batch = b, block.head = head, block.token = token;
  block.values = {layer.dtype, reinterpret_cast<const std::byte*>(values), std::move(shape),
                  std::move(strides)};
  return block;
}

template Matrix<const float> matrix_of(const Tensor&, std::size_t);
template Matrix<const double> matrix_of(const Tensor&, std::size_t);
template class TokenStages<float>;
template class TokenStages<double>;
template Block block_of(const Layer&, Stage, std::size_t, std::size_t, std::size_t, const float*,
                        Shape, std::vector<std::ptrdiff_t>);
template Block block_of(const Layer&, Stage, std::size_t, std::size_t, std::size_t, const double*,
                        Shape, std::vector<std::ptrdiff_t>);

} // namespace mha
