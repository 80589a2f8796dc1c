#include <mha/schedule/token_stages.hpp>

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
  const Dims& dims = layer.dims;
  place(Stage::x, Stage::x, Letter::T, dims.d_model);
  if (layer.settings.input_norm == InputNorm::none && !layer.has_given(Stage::x))
    tensors_[index_of(Stage::x)] = layer.X;
  place(Stage::q, Stage::x, Letter::T, dims.H * dims.d_k);
  place(Stage::k, Stage::x, Letter::S, dims.H_kv * dims.d_k);
  place(Stage::v, Stage::x, Letter::S, dims.H_kv * dims.d_v);
  place(Stage::q_norm, Stage::q, Letter::T, dims.H * dims.d_k);
  place(Stage::k_norm, Stage::k, Letter::S, dims.H_kv * dims.d_k);
  place(Stage::q_rope, Stage::q_norm, Letter::T, dims.H * dims.d_k);
  place(Stage::k_rope, Stage::k_norm, Letter::S, dims.H_kv * dims.d_k);
  place(Stage::k_all, Stage::k_rope, Letter::S_all, dims.H_kv * dims.d_k);
  place(Stage::v_all, Stage::v, Letter::S_all, dims.H_kv * dims.d_v);
  // The heads lie side by side: head_out is its own concatenation, unless one is given.
  place(Stage::head_out, Stage::head_out, Letter::T, dims.H * dims.d_v);
  Tensor& concat = tensors_[index_of(Stage::concat)];
  Tensor& head_out = tensors_[index_of(Stage::head_out)];
  if (layer.has_given(Stage::concat))
    place(Stage::concat, Stage::concat, Letter::T, dims.H * dims.d_v);
  else
    concat = head_out;
  if (head_out.empty()) head_out = concat;
  place(Stage::output, Stage::output, Letter::T, dims.d_out);
  place(Stage::residual, Stage::residual, Letter::T, dims.d_out);
}

/// Gives a token stage its memory: new if it is computed, the given tensor, or that of the step
/// before.
template <class T>
void TokenStages<T>::place(Stage stage, Stage before, Letter rows, std::size_t width) {
  Tensor& tensor = tensors_[index_of(stage)];
  if (layer_.has_given(stage)) {
    tensor = layer_.given[index_of(stage)];
    if (info_of(stage).kind == Kind::token)
      tensor = tensor.reshaped({layer_.dims.B, layer_.dims.size_of(rows), width});
  } else if (contains(plan_.computed, stage)) {
    tensor = Tensor::uninitialised(layer_.dtype, {layer_.dims.B, layer_.dims.size_of(rows), width});
  } else if (before != stage) {
    tensor = tensors_[index_of(before)];
  }
}

template <class T> Matrix<T> TokenStages<T>::rows_mutable(Stage stage, std::size_t b) {
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
  return {stage, b, head, token,
          ArrayView{layer.dtype, reinterpret_cast<const std::byte*>(values), std::move(shape),
                    std::move(strides)}};
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
