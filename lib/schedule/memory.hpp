#pragma once
// The memory of the token stages while a layer is computed: whole tensors, heads side by side.

#include <mha/kernels/matrix.hpp>
#include <mha/schedule/observer.hpp>
#include <mha/schedule/tiles.hpp>

#include <array>

namespace mha {

/// Item b of the first axis of a (B, rows, width) tensor, or a (rows, width) one.
template <class T> Matrix<const T> matrix_of(const Tensor& tensor, std::size_t b = 0);

/// A copy of a tensor that may be written into.
Tensor own_copy(const Tensor& tensor);

template <class T> class TokenStages {
public:
  /// Room for the stages that are computed; given ones are where they are. A step that the layer
  /// does not have reads as the step before it. concat is head_out's memory, unless one is given.
  TokenStages(const Layer& layer, const Plan& plan);

  const Tensor& tensor(Stage stage) const { return tensors_[index_of(stage)]; }
  /// The rows of batch b: tokens × (heads · width).
  Matrix<const T> rows(Stage stage, std::size_t b) const { return matrix_of<T>(tensor(stage), b); }
  /// The same, for who computes the stage.
  Matrix<T> rows_mutable(Stage stage, std::size_t b) const;

  /// A stage in memory of its own, where it was given.
  void make_own(Stage stage);

  /// Forgets a stage that nobody reads any more; its memory goes when no other step shares it.
  void release(Stage stage) { tensors_[index_of(stage)] = {}; }

  /// Shows an observer the blocks of a stage that the plan hands out.
  void show(Stage stage, Observer& observer, std::size_t threads) const;

private:
  void place(Stage stage);

  const Layer& layer_;
  const Plan& plan_;
  std::array<Tensor, stage_count> tensors_; ///< B, tokens, width
};

/// Shows an observer a piece of a stage: the rows of its place, or the numbers of a row stage as
/// one row.
template <class T> void show(Observer& observer, const Layer& layer, Stage stage,
                             const Place& place, Matrix<const T> values);

} // namespace mha
