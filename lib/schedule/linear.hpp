#pragma once
// y = x W + b: the one linear map of attention, feed-forward and head.

#include <mha/layer/block.hpp>
#include <mha/schedule/place.hpp>
#include <mha/schedule/routines.hpp>
#include <mha/schedule/tokens.hpp>
#include <mha/schedule/weight.hpp>

#include <array>

namespace mha {

/// A weight while the products of one phase read it: packed where the model keeps it so, or where
/// several tasks share its columns; else each task reads its own columns where they are stored.
template <class T> class WeightInUse {
public:
  /// Ready for `rows` rows in all; `shared`: several tasks read the same columns.
  void prepare(Routine routine, const Tensor& W, KeptWeights* kept, std::size_t rows,
               std::size_t threads, bool shared);
  /// y = x W[all, first …], as many columns as y has; `first` is where a strip of
  /// PackedMatrix::column_step begins.
  void multiply(Matrix<const T> x, std::size_t first, Matrix<T> y) const;

private:
  /// y = x W, converted into `memory` first where that is needed.
  void multiply_with(const Tensor& W, Matrix<const T> x, Matrix<T> y, Buffer<T>& memory) const;

  Routine routine_ = Routine::fma;
  const Tensor* W_ = nullptr;
  std::shared_ptr<const PackedWeight<T>> packed_;
};

/// y = x W + b, clipped to ± `limit` where that is not 0; no W is the identity, no b is zero. W and
/// b are the layer's, which lets them go after the phase. An element's bits depend on its row and
/// column alone, however the rows are cut.
template <class T> class Linear : public RowOperator<T> {
public:
  /// `X` replaces the stage that the step names, where it is not empty.
  Linear(const Routines& routines, const Layer& layer, const Tensor& W, const Tensor& bias,
         const Tensor* X = nullptr, double limit = 0)
      : routines_(routines),
        layer_(layer),
        W_(W),
        bias_(bias),
        X_(X),
        limit_(static_cast<T>(limit)) {}
  Linear(const Routines& routines, const Layer& layer, const LinearMap& map)
      : Linear(routines, layer, map.W, map.b) {}

  const Tensor* weight() const override { return &W_; }
  void prepare(const Usage& usage) override;
  void release() override { in_use_ = {}, bias_in_use_ = {}; }

  /// The columns of the rows' heads, from where a strip begins to where one ends: a product writes
  /// whole strips of PackedMatrix::column_step.
  void apply(const TokenRows<T>& rows, Stage from, Stage to) const override;
  /// y = x W[rows, all], for the rows of W that belong to the place's head; no bias.
  void of_head(const Place& place, Matrix<const T> x, Matrix<T> y) const;

private:
  /// What is done with each element of x W + b.
  virtual void finish(Matrix<T> y) const;

  const Routines& routines_;
  const Layer& layer_;
  const Tensor& W_;
  const Tensor& bias_;
  const Tensor* X_;
  T limit_;
  std::array<WeightInUse<T>, 2> in_use_; ///< for each routine that some item needs
  Tensor bias_in_use_;                   ///< in T
};

} // namespace mha
