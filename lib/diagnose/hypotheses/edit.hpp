#pragma once
// Tools of edits: stages as numbers, changed and given back.

#include <mha/layer/layer.hpp>

#include <initializer_list>

namespace mha {

/// Calls f with a value of the C++ type that a layer of this precision computes in.
template <class F> decltype(auto) with_number(DType dtype, F f) {
  if (dtype == DType::f64) return f(double{});
  return f(float{});
}

/// The stage itself, or the step before it that stands for it in a layer that does not have it.
Stage step_for(const Layer& layer, Stage stage);
/// The value of a stage (or of the one that stands for it), in the form of Layer::given.
Tensor value_of(const Layer& layer, Stage stage, std::size_t threads = 1);
/// The values of several stages of the layer, computed at once, in the form of Layer::given.
std::vector<Tensor> values_of(const Layer& layer, const std::vector<Stage>& wanted,
                              std::size_t threads = 1);

/// The stage is given from now on; or no longer.
void give(Layer& layer, Stage stage, Tensor value);
void take_back(Layer& layer, std::initializer_list<Stage> stages);

/// A shape as Layer::given has it.
Shape given_shape(const Layer& layer, Stage stage);
/// From the shape that users see (batch axis included) to the form of Layer::given, and back.
Tensor packed(const Layer& layer, Stage stage, const Tensor& value);

/// A copy that may be written to.
Tensor copied(const Tensor& tensor);
/// Columns [0, n) of a (rows, n) or (n) tensor: column i of the result is column from(i). Of one
/// that another change took away, nothing.
template <class F> Tensor columns_from(const Tensor& tensor, F from) {
  if (tensor.empty()) return tensor;
  Tensor result = Tensor::uninitialised(tensor.dtype(), tensor.shape());
  const std::size_t n = tensor.shape().back(), rows = tensor.count() / n;
  with_number(tensor.dtype(), [&]<class T>(T) {
    const auto source = tensor.as<T>();
    const auto target = result.as_mutable<T>();
    for (std::size_t row = 0; row < rows; ++row)
      for (std::size_t i = 0; i < n; ++i) target[row * n + i] = source[row * n + from(i)];
  });
  return result;
}
/// Every number x becomes f(x), computed in double; of a tensor that another change took away,
/// nothing.
template <class F> Tensor each_number(const Tensor& tensor, F f) {
  if (tensor.empty()) return tensor;
  Tensor result = Tensor::uninitialised(tensor.dtype(), tensor.shape());
  with_number(tensor.dtype(), [&]<class T>(T) {
    const auto source = tensor.as<T>();
    const auto target = result.as_mutable<T>();
    for (std::size_t i = 0; i < source.size(); ++i)
      target[i] = static_cast<T>(f(static_cast<double>(source[i])));
  });
  return result;
}
/// Each row, of the last axis, without its mean, computed in double.
Tensor without_row_means(const Tensor& tensor);
/// a + b, of equal shape and dtype.
Tensor sum_of(const Tensor& a, const Tensor& b);

} // namespace mha
