#pragma once
// The library for other programs: a layer from tensors or files, its stages computed, kept or
// streamed. With arrays of xtensor in and out: <mha/xtensor.hpp>. docs/library.md is the guide.
//
// Whatever goes wrong is an Error whose message says where, what was found, what was expected and
// the cure. Nothing here prints, exits, or changes what belongs to the process: threads of OpenMP
// and BLAS, signals, locale, environment. Every function may be called from several threads at
// once; one Layer, Cache, Model or Run may be read by several.

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

/// A tensor of numbers in row-major order, moved in without a copy. Throws Error where their number
/// is not the shape's. Of memory that stays where it is: mha::borrowed.
template <class T> Tensor tensor(std::vector<T> values, const Shape& shape) {
  static_assert(!std::same_as<T, bool>,
                "std::vector<bool> has no bytes: std::uint8_t, or an array");
  if (values.size() != count_of(shape))
    fail("{} do not fill the shape {}", counted(values.size(), "values"), to_string(shape));
  const auto owner = std::make_shared<std::vector<T>>(std::move(values));
  return {dtype_for<T>(), shape, {owner, reinterpret_cast<const std::byte*>(owner->data())}};
}
/// Numbers in row-major order where they lie: they live, unchanged, as long as the tensor and what
/// is made of it. With strides (in elements): as borrowed() of bytes says. Throws Error where they
/// do not fill the shape.
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
/// A tensor as it is, so that generic code can say mha::tensor(x) of everything.
inline Tensor tensor(Tensor already) {
  return already;
}

/// Tensors by name: canonical ("X", "W_q", "b_o", "mask"; docs/formats.md), a stage ("q",
/// "weights"), or an alias of either.
using Tensors = std::vector<std::pair<std::string, Tensor>>;

/// What else may be said of a layer.
struct Options {
  /// Settings as text, ("rope_base", "5e5"), ("causal", "false"): they win over the files'.
  std::vector<std::pair<std::string, std::string>> settings = {};
  /// float32 or float64; none: as the input is.
  std::optional<DType> dtype = {};
  ///@{
  /// Labels, one a token (a key).
  std::vector<std::string> tokens = {}, key_tokens = {};
  ///@}
  /// Gets what was taken silently, passed over or is in doubt, each text once; null: they are
  /// dropped.
  std::vector<Note>* notes = nullptr;
  /// Of files: a family by name, or the file of a description (docs/describing.md); "": as the
  /// files say.
  std::string naming = {};
};

/// A layer made of tensors. Their memory is shared where dtype and layout are the layer's, and
/// copied otherwise. Computed in float64 if X is float64, else in float32. Throws Error where a
/// shape does not fit another, a name is none, or a name comes twice.
MHA_API Layer layer(Tensors tensors, Settings settings = {}, const Options& options = {});

/// One layer of what `mha-inspect` reads: a checkpoint folder, .safetensors, .npz, .npy, .json.
/// `layer` is its number (negative from the end) or its name ("decoder.3.cross" where numbers are
/// not enough; "" where there is one), `X` where its input is: "FILE" or "FILE:TENSOR", looked for
/// in the current folder, then beside `source`; "" where `source` has it.
MHA_API Layer load(const std::string& source, const LayerId& layer = {}, const std::string& X = "",
                   const Options& options = {});
/// The same with tensors in memory: X, a mask, a stage in place of its computation.
MHA_API Layer load(const std::string& source, const LayerId& layer, Tensors tensors,
                   const Options& options = {});
/// The ids of the layers that a source holds, in order; {""} for one layer without a number.
MHA_API std::vector<std::string> layers_in(const std::string& source);

/// Stages of a layer, computed. Tensors share their memory with the cache, and outlive it.
class MHA_API Cache {
public:
  /// What it has, in the order of the computation.
  std::vector<Stage> stages() const;
  bool has(Stage stage) const; ///< whether it was computed
  /// The precision that all are in: float32 or float64.
  DType dtype() const;

  ///@{
  /// A stage by its name or an alias ("weights", "pattern", "blocks.0.attn.hook_pattern"). Shape as
  /// docs/stages.md says, with the batch axis only if X has one. Throws Error where it was not
  /// asked for, or the layer does not have it.
  Tensor tensor(std::string_view name) const;
  Tensor tensor(Stage stage) const;
  Tensor tensor(TwoNames names) const = delete;

  ///@}
  ///@{
  /// The same as an expression of xtensor, with <mha/xtensor.hpp>; get<float, 3> has its three axes
  /// in its type. Throws Error, too, where the cache is not in T or the stage has not N axes; none
  /// of these converts.
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

  /// What the library fills it from.
  struct State;
  explicit Cache(std::shared_ptr<const State> state)
      : state_(std::move(state)) {} ///< the library's

private:
  Shared<const State> state_;
};

/// Computes every stage that the layer has. Throws Error before anything is computed if they would
/// not fit into memory.
MHA_API Cache run(const Layer& layer);
/// Computes some stages, by themselves or by name. Throws Error for one that the layer does not
/// have, with those it has. `threads` 0: as many as pay.
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

/// Computes one stage and hands its rows out as they appear, in the order batch, head, token: at
/// most 256 tokens of one head of weights, scores …, (count, S). One call at a time, on threads of
/// the library; rows may be kept. An exception of `use` ends the computation and comes back.
MHA_API void stream(const Layer& layer, Stage stage,
                    const std::function<void(Place, Tensor rows)>& use, std::size_t threads = 0);
MHA_API void stream(const Layer& layer, std::string_view stage,
                    const std::function<void(Place, Tensor rows)>& use, std::size_t threads = 0);
void stream(const Layer& layer, TwoNames stages, const std::function<void(Place, Tensor rows)>& use,
            std::size_t threads = 0) = delete;
/// The same with rows of xtensor, with <mha/xtensor.hpp>: each(layer, stage, [](Place p, auto rows)
/// …), each<double> for a float64 layer. Rows are a matrix of p.count rows in their type; of row
/// values one column. Throws Error where the layer is not in T.
template <class T = float, class Use>
void each(const Layer& layer, Stage stage, Use&& use, std::size_t threads = 0);
template <class T = float, class Use>
void each(const Layer& layer, std::string_view stage, Use&& use, std::size_t threads = 0);
template <class T = float, class Use>
void each(const Layer& layer, TwoNames stages, Use&& use, std::size_t threads = 0) = delete;

} // namespace mha
