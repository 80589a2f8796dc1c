#pragma once
// Projections: weights are packed just before the phase that reads them, and dropped after it.

#include <mha/kernels/packed.hpp>
#include <mha/schedule/tokens.hpp>

namespace mha {

/// y = x W + b, clipped to ± `limit` where that is not 0; no W is the identity, no b is zero. W and
/// b are the layer's, which lets them go after the phase.
template <class T> class Linear : public RowOperator<T> {
public:
  /// `X` replaces the stage that the step names, where it is not empty.
  Linear(Routine routine, const Tensor& W, const Tensor& bias, const Tensor* X = nullptr,
         double limit = 0)
      : routine_(routine), W_(W), bias_(bias), X_(X), limit_(static_cast<T>(limit)) {}

  void prepare(std::size_t rows, std::size_t threads) override;
  void release() override { packed_ = {}; }

  /// The columns of the rows' heads, from where a strip begins to where one ends: a product writes
  /// whole strips of PackedMatrix::column_step.
  void apply(const TokenRows<T>& rows, Stage from, Stage to) const override;
  /// y = x W[rows, all], for the rows of W that belong to one head; no bias.
  void of_head(std::size_t head, Matrix<const T> x, Matrix<T> y) const;

private:
  Routine routine_;
  const Tensor& W_;
  const Tensor& bias_;
  const Tensor* X_;
  T limit_;
  PackedMatrix<T> packed_;
};

} // namespace mha
