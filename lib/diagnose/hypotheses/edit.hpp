#pragma once
// Tools for edits: values of stages, which edits compute, change and give back to the layer.

#include <mha/layer/layer.hpp>
#include <mha/system/error.hpp>
#include <mha/tensor/precision.hpp>

#include <cstring>
#include <initializer_list>
#include <vector>

namespace mha {

/// The stages that normalise queries and keys, and those that rotate them.
inline StageSet qk_norm_stages() {
  return StageSet{Stage::q_norm, Stage::k_norm};
}
inline StageSet rotary_stages() {
  return StageSet{Stage::q_rope, Stage::k_rope};
}

/// The layer with tokens as rows and a batch axis, the form in which stages are compared.
inline Layer plain_form(Layer layer) {
  layer.settings.columns = false;
  layer.dims.batched = true;
  return layer;
}

/// The stage itself, or in a layer without it the step before that has the same value.
Stage step_for(const Layer& layer, Stage stage);
/// The value of a stage (or of its step_for), in the form of Layer::given.
Tensor value_of(const Layer& layer, Stage stage, std::size_t threads = 1);
/// The values of several stages of the layer, computed at once, in the form of Layer::given.
std::vector<Tensor> values_of(const Layer& layer, const std::vector<Stage>& wanted,
                              std::size_t threads = 1);

/// Gives a stage to the layer, or removes given stages.
void give(Layer& layer, Stage stage, Tensor value);
void clear_given(Layer& layer, std::initializer_list<Stage> stages);

/// The shape of a stage in the form of Layer::given.
Shape given_shape(const Layer& layer, Stage stage);
/// Converts a value from the shape that users see, with a batch axis, to the form of Layer::given.
Tensor packed(const Layer& layer, Stage stage, const Tensor& value);

/// Returns the index. Throws Error if it is not below `count`: a change is impossible if another
/// one gave a tensor other sizes.
inline std::size_t within(std::size_t index, std::size_t count) {
  if (index >= count)
    fail("another change left {} rows or columns: there is none at {}", count, index);
  return index;
}

/// A copy that may be written to.
Tensor copied(const Tensor& tensor);
/// The given columns of a (rows, n) or (n) tensor.
Tensor columns_of(const Tensor& tensor, const std::vector<std::size_t>& columns);
/// `count` columns of a (rows, n) or (n) tensor: column i of the result is column from(i). Empty
/// for an empty tensor, which another change removed.
template <class F> Tensor columns_from(const Tensor& tensor, std::size_t count, F from) {
  if (tensor.empty()) return tensor;
  std::vector<std::size_t> columns(count);
  for (std::size_t i = 0; i < count; ++i) columns[i] = within(from(i), tensor.shape().back());
  return columns_of(tensor, columns);
}
/// The same for all columns.
template <class F> Tensor columns_from(const Tensor& tensor, F from) {
  return tensor.empty() ? tensor : columns_from(tensor, tensor.shape().back(), from);
}
/// A copy of a matrix in which row i is row from(i). Empty for an empty matrix.
template <class F> Tensor rows_from(const Tensor& matrix, F from) {
  if (matrix.empty()) return matrix;
  Tensor result = Tensor::uninitialised(matrix.dtype(), matrix.shape());
  const std::size_t rows = matrix.shape()[0], bytes = result.bytes() / rows;
  std::byte* to = result.raw_mutable();
  for (std::size_t row = 0; row < rows; ++row, to += bytes)
    std::memcpy(to, matrix.raw() + within(from(row), rows) * bytes, bytes);
  return result;
}
/// A copy of rows (B, T, …) in which token t has the row of token from(t).
template <class F> Tensor tokens_from(const Tensor& rows, F from) {
  Tensor result = Tensor::uninitialised(rows.dtype(), rows.shape());
  const std::size_t T = rows.shape()[1], all = rows.shape()[0] * T, bytes = result.bytes() / all;
  std::byte* to = result.raw_mutable();
  for (std::size_t row = 0; row < all; ++row, to += bytes)
    std::memcpy(to, rows.raw() + (row - row % T + within(from(row % T), T)) * bytes, bytes);
  return result;
}
/// A copy in which every number x becomes f(x), computed in double. Empty for an empty tensor.
template <class F> Tensor each_number(const Tensor& tensor, F f) {
  if (tensor.empty()) return tensor;
  Tensor result = Tensor::uninitialised(tensor.dtype(), tensor.shape());
  by_precision(tensor.dtype(), [&]<class T>(T) {
    const auto source = tensor.as<T>();
    const auto target = result.as_mutable<T>();
    for (std::size_t i = 0; i < source.size(); ++i)
      target[i] = static_cast<T>(f(static_cast<double>(source[i])));
  });
  return result;
}
/// The memory of (H, T, d) read as (T, H · d), without the transposition of tokens and heads.
Tensor unmerged(const Tensor& x, std::size_t heads);
/// The memory of an (in, out) matrix read as (out, in) and transposed.
Tensor read_transposed(const Tensor& W);
/// The rows along the last axis minus their means, computed in double.
Tensor without_row_means(const Tensor& tensor);
/// a + b, of equal shape and dtype.
Tensor sum_of(const Tensor& a, const Tensor& b);

/// Gives the layer its own copy of its block, for changes.
TransformerBlock& own_block(Layer& layer);
/// The same of its mixture.
Mixture& own_mixture(Layer& layer);
/// The same for a model's ends.
ModelEnds& own_ends(Layer& layer);

/// A copy of the map in which output i is output from(i).
template <class F> LinearMap with_outputs(const LinearMap& map, F from) {
  return {columns_from(map.W, from), columns_from(map.b, from)};
}

/// A group of settings that layers may take from each other.
enum class SettingGroup : std::uint8_t { windows, rotations };

/// Whether two layers have the same window or rotation.
bool same_settings(const Layer& a, const Layer& b, SettingGroup group);
/// Gives the layer the window or the rotation of another.
void take_settings(Layer& layer, const Layer& from, SettingGroup group);

} // namespace mha
