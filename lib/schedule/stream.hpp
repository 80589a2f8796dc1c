#pragma once
// The rows of the residual stream while what stands around attention is computed: memory, threads,
// and who sees them. What is computed is said in forward/block.

#include <mha/kernels/matrix.hpp>
#include <mha/kernels/routine.hpp>
#include <mha/schedule/memory.hpp>
#include <mha/schedule/observer.hpp>
#include <mha/schedule/plan.hpp>
#include <mha/schedule/tiles.hpp>
#include <mha/schedule/times.hpp>

#include <array>
#include <functional>

namespace mha {

/// The rows of some consecutive queries of one batch item, of every stage that is there.
template <class T> class Stream {
public:
  /// `output` is attention's, where the plan computes it: the rows of all items (ItemRows),
  /// d_model. The layer, the plan and the observer outlive this.
  Stream(const Layer& layer, const Plan& plan, Observer& observer, std::size_t threads,
         Tensor output);

  /// Does the work for one run of queries after the other: all that the plan's blocks hold.
  void each_run(const std::function<void()>& work);

  /// A stage in this run: given, computed, or what it is computed from where the layer lacks it.
  Matrix<const T> operator[](Stage stage) const;

  /// What works on rows sees some of them, of every stage, and where the new ones go.
  struct Rows {
    const Stream& all;
    std::size_t first, count;
    Matrix<T> to;
    Matrix<const T> operator[](Stage stage) const { return all[stage].rows_from(first, count); }
  };
  /// Computes a stage row by row, if the plan asks for it, and shows it.
  void rows(Stage stage, const std::function<void(const Rows&)>& work);
  /// Computes a stage as x W + b, x being another stage or a matrix, if the plan asks for it, does
  /// `then` with its rows, and shows it.
  void product(Stage stage, Stage x, const LinearMap& linear);
  void product_of(Stage stage, Matrix<const T> x, const LinearMap& linear,
                  const std::function<void(Matrix<T>)>& then = nullptr);
  /// Shows a stage, if the plan wants it.
  void show(Stage stage) const;
  bool computes(Stage stage) const { return contains(plan_.computed, stage); }

  /// x W + b, and rows like others, in memory that lasts as long as the run.
  Matrix<T> scratch_product(Matrix<const T> x, const LinearMap& linear);
  Matrix<T> scratch_like(Matrix<const T> rows);
  /// Some rows after the other, on several threads.
  void tiles(std::size_t rows,
             const std::function<void(std::size_t first, std::size_t count)>& work) const;

  DType dtype() const { return layer_.dtype; }
  /// Seconds of each stage so far, of all threads together.
  const StageSeconds& seconds() const { return seconds_; }

private:
  Matrix<T> room(Stage stage);
  /// Does the work of a stage in its room, timed.
  void compute(Stage stage, const std::function<void(Matrix<T>)>& work);
  void patch(Stage stage, Matrix<T> rows) const;
  Matrix<const T> run_rows(const Tensor& tensor) const;
  /// Which multiplies for a batch item.
  Routine routine_of(std::size_t batch) const;

  const Layer& layer_;
  const Plan& plan_;
  Observer& observer_;
  std::size_t threads_;
  ItemRows items_;
  Tensor output_;
  Tile run_;
  std::array<Tensor, stage_count> computed_; ///< of this run: count, width
  std::vector<Tensor> scratch_;
  StageSeconds seconds_{};
};

} // namespace mha
