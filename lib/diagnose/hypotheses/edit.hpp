#pragma once
// Tools of edits: stages as numbers, changed and given back.

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

/// Tokens as rows and a batch axis: the form in which stages are compared.
inline Layer plain_form(Layer layer) {
  layer.settings.columns = false;
  layer.dims.batched = true;
  return layer;
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
void clear_given(Layer& layer, std::initializer_list<Stage> stages);

/// A shape as Layer::given has it.
Shape given_shape(const Layer& layer, Stage stage);
/// From the shape that users see (batch axis included) to the form of Layer::given, and back.
Tensor packed(const Layer& layer, Stage stage, const Tensor& value);

/// The index, of `count`. Throws Error beyond them: beside another change, which gave a tensor
/// other sizes, a change cannot be made.
inline std::size_t within(std::size_t index, std::size_t count) {
  if (index >= count)
    fail("another change left {} rows or columns: there is none at {}", count, index);
  return index;
}

/// A copy that may be written to.
Tensor copied(const Tensor& tensor);
/// These columns of a (rows, n) or (n) tensor, each below n, side by side.
Tensor columns_of(const Tensor& tensor, const std::vector<std::size_t>& columns);
/// `count` columns of a (rows, n) or (n) tensor: column i of the result is column from(i). Of one
/// that another change took away, nothing.
template <class F> Tensor columns_from(const Tensor& tensor, std::size_t count, F from) {
  if (tensor.empty()) return tensor;
  std::vector<std::size_t> columns(count);
  for (std::size_t i = 0; i < count; ++i) columns[i] = within(from(i), tensor.shape().back());
  return columns_of(tensor, columns);
}
/// The same of as many columns as there are.
template <class F> Tensor columns_from(const Tensor& tensor, F from) {
  return tensor.empty() ? tensor : columns_from(tensor, tensor.shape().back(), from);
}
/// Row i of a matrix's copy is row from(i). Of one that another change took away, nothing.
template <class F> Tensor rows_from(const Tensor& matrix, F from) {
  if (matrix.empty()) return matrix;
  Tensor result = Tensor::uninitialised(matrix.dtype(), matrix.shape());
  const std::size_t rows = matrix.shape()[0], bytes = result.bytes() / rows;
  std::byte* to = result.raw_mutable();
  for (std::size_t row = 0; row < rows; ++row, to += bytes)
    std::memcpy(to, matrix.raw() + within(from(row), rows) * bytes, bytes);
  return result;
}
/// Rows (B, T, …) of which token t's is token from(t)'s.
template <class F> Tensor tokens_from(const Tensor& rows, F from) {
  Tensor result = Tensor::uninitialised(rows.dtype(), rows.shape());
  const std::size_t T = rows.shape()[1], all = rows.shape()[0] * T, bytes = result.bytes() / all;
  std::byte* to = result.raw_mutable();
  for (std::size_t row = 0; row < all; ++row, to += bytes)
    std::memcpy(to, rows.raw() + (row - row % T + within(from(row % T), T)) * bytes, bytes);
  return result;
}
/// Every number x becomes f(x), computed in double; of a tensor that another change took away,
/// nothing.
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
/// The numbers of (T, H · d) as they would lie if the memory of (H, T, d) had that shape: a
/// transposition of tokens and heads that was forgotten.
Tensor unmerged(const Tensor& x, std::size_t heads);
/// The numbers of an (in, out) matrix as if its memory were (out, in), transposed.
Tensor read_transposed(const Tensor& W);
/// Each row, of the last axis, without its mean, computed in double.
Tensor without_row_means(const Tensor& tensor);
/// a + b, of equal shape and dtype.
Tensor sum_of(const Tensor& a, const Tensor& b);

/// The layer's own copy of its block, to be changed.
TransformerBlock& own_block(Layer& layer);
/// The same of a model's ends.
ModelEnds& own_ends(Layer& layer);

/// The map whose output i is output from(i).
template <class F> LinearMap with_outputs(const LinearMap& map, F from) {
  return {columns_from(map.W, from), columns_from(map.b, from)};
}

/// What the settings of layers are compared and exchanged by.
enum class SettingGroup : std::uint8_t { windows, rotations };

/// Whether two layers have the same window, or rotate alike.
bool same_settings(const Layer& a, const Layer& b, SettingGroup group);
/// The layer gets the window, or the rotation, of another one.
void take_settings(Layer& layer, const Layer& from, SettingGroup group);

} // namespace mha
