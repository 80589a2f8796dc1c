#pragma once
// From scores to weights, for one head and a block of queries: scale, cap, bias, mask, softmax, one
// step after the other on each row while it is in the cache. A row that somebody wants is copied
// aside at its step, so what is shown is what was used.

#include <mha/kernels/matrix.hpp>
#include <mha/layer/layer.hpp>
#include <mha/schedule/plan.hpp>
#include <mha/schedule/visible.hpp>
#include <mha/system/memory.hpp>

#include <array>
#include <initializer_list>

namespace mha {

template <class T> class SoftmaxBlock {
public:
  /// One per thread, so that its memory is used again.
  static SoftmaxBlock& of_this_thread();

  /// Makes room for queries [first_query, first_query + queries) of a head. `finite_values`: no
  /// value is NaN or infinite, so a weight of zero really adds nothing. Keys are left out in
  /// multiples of `step`.
  void start(const Layer& layer, const Plan& plan, std::size_t b, std::size_t h,
             std::size_t first_query, std::size_t queries, bool finite_values, std::size_t step);
  /// Runs every row from what rows() holds, or from the given stage, to the last step planned.
  void run();

  /// queries × S: scores before run(), weights after it (columns outside seen() hold zeros where
  /// somebody wants the weights).
  Matrix<T> rows() { return {rows_.data(), queries_, keys_, keys_}; }
  /// The keys whose scores are computed, and those that the block can see.
  Visible scored() const { return scored_; }
  Visible seen() const { return seen_; }

  /// The values of a wanted stage: queries × S of a map, `queries` of a row stage.
  const T* map(Stage stage) const;
  const T* row(Stage stage) const { return row_values_[index_of(stage)].data(); }

private:
  void run_row(std::size_t i);
  bool computes(Stage stage) const { return contains(plan_->computed, stage); }
  bool starts_at(Stage stage) const {
    return layer_->has_given(stage) && contains(plan_->needed, stage);
  }
  bool wants(Stage stage) const { return contains(plan_->wanted, stage); }
  bool none_wanted(std::initializer_list<Stage> stages) const;
  void load(Stage stage, std::size_t i, T* row) const;
  void keep(Stage stage, std::size_t i, const T* row, T outside);
  void keep_value(Stage stage, std::size_t i, T value);
  T given_value(Stage stage, std::size_t i) const;

  const Layer* layer_ = nullptr;
  const Plan* plan_ = nullptr;
  std::size_t b_ = 0, h_ = 0, first_ = 0, queries_ = 0, keys_ = 0;
  Visible scored_, seen_;
  T scale_ = 1, slope_ = 0;
  /// Nobody looks between scaled and exp, and the steps between keep the order of a row: it is
  /// scaled where it is exponentiated, to the same bits, in one pass less.
  bool scales_late_ = false;
  Buffer<T> rows_;
  std::array<Buffer<T>, stage_count> maps_, row_values_;
};

} // namespace mha
