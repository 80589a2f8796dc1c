#pragma once
// The memory of the token stages while a layer is computed: whole tensors up to output, heads side
// by side; after it, the rows of one text at a time.

#include <mha/kernels/matrix.hpp>
#include <mha/schedule/observer.hpp>
#include <mha/schedule/tiles.hpp>

#include <array>
#include <vector>

namespace mha {

/// Item b of the first axis of a (B, rows, width) tensor, or a (rows, width) one.
template <class T> Matrix<const T> matrix_of(const Tensor& tensor, std::size_t b = 0);

/// The stages whose memory a stage's step reads, including those that replace another one.
StageSet stages_read(const Layer& layer, Stage stage);

/// A copy of a tensor that may be written into.
Tensor own_copy(const Tensor& tensor);

/// Where the computed rows of each batch item are in a tensor that has them one item after the
/// other: of queries (T), current keys (S), or all keys (S_all).
class ItemRows {
public:
  ItemRows(const Layer& layer, Dim tokens);
  std::size_t all() const { return first_.back(); }
  std::size_t first(std::size_t batch) const { return first_[batch]; }
  /// Those of an item, in such a tensor.
  template <class T> Matrix<const T> of(const Tensor& tensor, std::size_t batch) const {
    return matrix_of<T>(tensor).rows_from(first_[batch], first_[batch + 1] - first_[batch]);
  }

private:
  std::vector<std::size_t> first_{0};
};

/// Whether a stage follows attention's output: what the block and the model's head make of
/// it.
inline bool is_after_output(Stage stage) {
  return stage != Stage::embed && is_of(stage, {Section::sum, Section::block, Section::model});
}

template <class T> class TokenStages {
public:
  /// Room for the stages that are computed; given ones are where they are. A step that the layer
  /// does not have reads as the step before it. concat is head_out's memory, unless one is given.
  TokenStages(const Layer& layer, const Plan& plan);

  /// From now on these are the rows of the stages after output; none of them has room.
  void open(const Tile& rows) { open_ = rows, opened_ = {}; }
  /// Room for the open rows of a stage after output.
  void make_room(Stage stage);
  /// No room for any.
  void close() { opened_ = {}; }

  /// The rows of batch b that are computed, or given: tokens × (heads · width). Not of a stage
  /// after output that is computed.
  Matrix<const T> rows(Stage stage, std::size_t b) const;
  /// Some of them; of a stage after output, of the rows that are open.
  Matrix<const T> rows(Stage stage, const Tile& tile) const;
  /// The same, for the step that computes the stage.
  Matrix<T> rows_mutable(Stage stage, std::size_t b) const;
  Matrix<T> rows_mutable(Stage stage, const Tile& tile) const;

  /// A stage in memory of its own, where it was given.
  void make_own(Stage stage);

  /// Forgets a stage that no later step reads; its memory goes when no other step shares it.
  void release(Stage stage) { tensors_[index_of(stage)] = {}; }

  /// Shows an observer the blocks of a wanted stage.
  void show(Stage stage, Observer& observer, std::size_t threads) const;
  /// The same, of the rows that are open.
  void show_open(Stage stage, Observer& observer, std::size_t threads) const;

private:
  void place(Stage stage);
  void place_of_stream(Stage stage);
  const ItemRows& items_of(Stage stage) const;

  const Layer& layer_;
  const Plan& plan_;
  std::array<ItemRows, 3> items_; ///< of queries, current keys, all keys
  /// B, tokens, width where they are given; else the items' rows, width.
  std::array<Tensor, stage_count> tensors_;
  Tile open_;                              ///< rows of stages after output
  std::array<Tensor, stage_count> opened_; ///< rows that are open, width
  std::vector<Place> places_;              ///< of stages after output, in the order of rows
};

/// Shows an observer a piece of a stage: the rows of its place, or the numbers of a row stage as
/// one row.
template <class T> void show(Observer& observer, const Layer& layer, Stage stage,
                             const Place& place, Matrix<const T> values);

} // namespace mha
