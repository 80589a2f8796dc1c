#pragma once
// The library for other programs: makes a layer from tensors or files, and computes, keeps or
// streams its stages. <mha/xtensor.hpp> adds arrays of xtensor. docs/library.md is the guide.
//
// All errors are of type Error; the message names the place, what was found, what was expected and
// the cure. The library never prints, exits or changes the state of the process: threads of OpenMP
// and BLAS, signals, locale, environment. Every function may be called from several threads at
// once; several threads may read one Layer, Cache, Model or Run.

#include <mha/system/export.hpp>

#include <mha/layer/layer.hpp>
#include <mha/model.hpp>
#include <mha/naming/stage_names.hpp>
#include <mha/naming/tensor_names.hpp>
#include <mha/patch.hpp>
#include <mha/schedule/place.hpp>
#include <mha/shared.hpp>
#include <mha/system/note.hpp>
#include <mha/values.hpp>

#include <concepts>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mha {

/// A tensor of numbers in row-major order, which are moved without a copy. Throws Error if they do
/// not fill the shape. For memory that the caller keeps, see mha::borrowed.
template <class T> Tensor tensor(std::vector<T> values, const Shape& shape) {
  static_assert(!std::same_as<T, bool>,
                "std::vector<bool> has no bytes: std::uint8_t, or an array");
  if (values.size() != count_of(shape))
    fail("{} do not fill the shape {}", counted(values.size(), "values"), to_string(shape));
  const auto owner = std::make_shared<std::vector<T>>(std::move(values));
  return {dtype_for<T>(), shape, {owner, reinterpret_cast<const std::byte*>(owner->data())}};
}
/// A tensor over the caller's memory in row-major order. The numbers must exist unchanged as long
/// as the tensor and everything made from it. With strides (in elements), see borrowed() for bytes.
/// Throws Error if the numbers do not fill the shape.
template <class T> Tensor borrowed(std::span<const T> numbers, const Shape& shape) {
  if (numbers.size() != count_of(shape))
    fail("{} do not fill the shape {}", counted(numbers.size(), "values"), to_string(shape));
  const std::shared_ptr<const std::byte> memory(std::shared_ptr<const void>(),
                                                reinterpret_cast<const std::byte*>(numbers.data()));
  return Tensor(dtype_for<T>(), shape, memory).read_only();
}
template <class T> Tensor borrowed(std::vector<T>&& numbers, const Shape& shape) = delete;
template <class T>
Tensor borrowed(const T* numbers, const Shape& shape, const std::vector<std::ptrdiff_t>& strides) {
  return borrowed(dtype_for<T>(), reinterpret_cast<const std::byte*>(numbers), shape, strides);
}
/// Returns the tensor, so that generic code can write mha::tensor(x) for any x.
inline Tensor tensor(Tensor already) {
  return already;
}

/// Tensors by name: canonical ("X", "W_q", "b_o", "mask"; docs/formats.md), a stage ("q",
/// "weights"), or an alias of either.
using Tensors = std::vector<std::pair<std::string, Tensor>>;

/// Further options of a layer.
struct Options {
  /// Settings as text, ("rope_base", "5e5"), ("causal", "false"), which override those in files.
  std::vector<std::pair<std::string, std::string>> settings = {};
  /// float32 or float64; default: that of the input.
  std::optional<DType> dtype = {};
  ///@{
  /// Labels, one for each token (key).
  std::vector<std::string> tokens = {}, key_tokens = {};
  ///@}
  /// Gets silent assumptions, ignored tensors and doubts, each text once; null: they are dropped.
  std::vector<Note>* notes = nullptr;
  /// For files: the name of a family, or the file of a description (docs/describing.md); "":
  /// detected from the files.
  std::string naming = {};
};

/// A layer made of tensors. Their memory is shared if dtype and layout match the layer, otherwise
/// copied. Computed in float64 if X is float64, else in float32. Throws Error for shapes that do
/// not match, and for unknown or repeated names.
MHA_API Layer layer(Tensors tensors, Settings settings = {}, const Options& options = {});

/// Loads one layer from a source that `mha-inspect` reads: a checkpoint folder, .safetensors, .npz,
/// .npy, .json. `layer` is its number (negative from the end) or its name ("decoder.3.cross" if
/// numbers are ambiguous; "" if there is only one). `X` is its input, "FILE" or "FILE:TENSOR",
/// which is searched in the current folder and then beside `source`; "" if `source` contains it.
MHA_API Layer load(const std::string& source, const LayerId& layer = {}, const std::string& X = "",
                   const Options& options = {});
/// The same with tensors in memory: X, a mask, or a stage that replaces its computation.
MHA_API Layer load(const std::string& source, const LayerId& layer, Tensors tensors,
                   const Options& options = {});
/// The ids of the layers in a source, in order; {""} for one layer without a number.
MHA_API std::vector<std::string> layers_in(const std::string& source);

/// Computed stages of a layer. Tensors share their memory with the cache and outlive it.
class MHA_API Cache {
public:
  /// The computed stages, in order.
  std::vector<Stage> stages() const;
  bool has(Stage stage) const; ///< whether it was computed
  /// The precision of all stages: float32 or float64.
  DType dtype() const;

  ///@{
  /// A stage by its name or an alias ("weights", "pattern", "blocks.0.attn.hook_pattern"). Its
  /// shape is that in docs/stages.md, with a batch axis only if X has one. Throws Error if it was
  /// not requested, or if the layer does not have it.
  Tensor tensor(std::string_view name) const;
  Tensor tensor(Stage stage) const;
  Tensor tensor(TwoNames names) const = delete;

  ///@}
  ///@{
  /// The same as an expression of xtensor, with <mha/xtensor.hpp>; get<float, 3> has three axes in
  /// its type. Nothing is converted: also throws Error if the cache is not in T or the stage does
  /// not have N axes.
  template <class T, std::size_t N = any_rank> Values<T, N> get(std::string_view name) const;
  template <class T, std::size_t N = any_rank> Values<T, N> get(Stage stage) const;
  template <class T, std::size_t N = any_rank> Values<T, N> get(TwoNames names) const = delete;
  template <std::same_as<float> T = float> Values<T> operator[](std::string_view name) const {
    return get<T>(name);
  }
  template <std::same_as<float> T = float> Values<T> operator[](Stage stage) const {
    return get<T>(stage);
  }
  template <std::same_as<float> T = float> Values<T> at(std::string_view name) const {
    return get<T>(name);
  }
  template <std::same_as<float> T = float> Values<T> at(Stage stage) const { return get<T>(stage); }
  ///@}

  /// The library's internal state.
  struct State;
  explicit Cache(std::shared_ptr<const State> state)
      : state_(std::move(state)) {} ///< the library's

private:
  Shared<const State> state_;
};

/// Computes every stage of the layer. Throws Error before the computation if they would not fit
/// into memory.
MHA_API Cache run(const Layer& layer);
/// Computes some stages, given as Stage or by name. For a stage that the layer does not have,
/// throws Error that lists those it has. `threads` 0: as many as speed up the computation.
MHA_API Cache run(const Layer& layer, const std::vector<Stage>& stages, std::size_t threads = 0);
MHA_API Cache run(const Layer& layer, const std::vector<std::string>& stages,
                  std::size_t threads = 0);

inline Cache run(const Layer& layer, std::initializer_list<Stage> stages, std::size_t threads = 0) {
  return run(layer, std::vector<Stage>(stages), threads);
}
inline Cache run(const Layer& layer, std::initializer_list<std::string_view> stages,
                 std::size_t threads = 0) {
  return run(layer, std::vector<std::string>(stages.begin(), stages.end()), threads);
}

/// Computes one stage and passes its rows to `use` during the computation, in the order batch,
/// head, token: at most 256 tokens of one head of weights, scores …, (count, S). One call at a
/// time, on threads of the library; rows may be kept. An exception from `use` stops the computation
/// and is rethrown.
MHA_API void stream(const Layer& layer, Stage stage,
                    const std::function<void(Place, Tensor rows)>& use, std::size_t threads = 0);
MHA_API void stream(const Layer& layer, std::string_view stage,
                    const std::function<void(Place, Tensor rows)>& use, std::size_t threads = 0);
void stream(const Layer& layer, TwoNames stages, const std::function<void(Place, Tensor rows)>& use,
            std::size_t threads = 0) = delete;
/// The same with rows of xtensor, with <mha/xtensor.hpp>: each(layer, stage, [](Place p, auto rows)
/// …), each<double> for a float64 layer. Rows are a matrix of p.count rows in their type; stages
/// with one number for each row have one column. Throws Error if the layer is not in T.
template <class T = float, class Use>
void each(const Layer& layer, Stage stage, Use&& use, std::size_t threads = 0);
template <class T = float, class Use>
void each(const Layer& layer, std::string_view stage, Use&& use, std::size_t threads = 0);
template <class T = float, class Use>
void each(const Layer& layer, TwoNames stages, Use&& use, std::size_t threads = 0) = delete;

} // namespace mha
