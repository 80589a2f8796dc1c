#pragma once
// Projections: weights are packed just before the phase that reads them, and dropped after it.

#include <mha/kernels/packed.hpp>
#include <mha/schedule/place.hpp>
#include <mha/schedule/routines.hpp>
#include <mha/schedule/tokens.hpp>

#include <array>

namespace mha {

/// y = x W + b, clipped to ± `limit` where that is not 0; no W is the identity, no b is zero. W and
/// b are the layer's, which lets them go after the phase.
template <class T> class Linear : public RowOperator<T> {
public:
  /// `X` replaces the stage that the step names, where it is not empty.
  Linear(const Routines& routines, const Tensor& W, const Tensor& bias, const Tensor* X = nullptr,
         double limit = 0)
      : routines_(routines), W_(W), bias_(bias), X_(X), limit_(static_cast<T>(limit)) {}

  void prepare(std::size_t rows, std::size_t threads) override;
  void release() override { packed_ = {}; }

  /// The columns of the rows' heads, from where a strip begins to where one ends: a product writes
  /// whole strips of PackedMatrix::column_step.
  void apply(const TokenRows<T>& rows, Stage from, Stage to) const override;
  /// y = x W[rows, all], for the rows of W that belong to the place's head; no bias.
  void of_head(const Place& place, Matrix<const T> x, Matrix<T> y) const;

private:
  const Routines& routines_;
  const Tensor& W_;
  const Tensor& bias_;
  const Tensor* X_;
  T limit_;
  std::array<PackedMatrix<T>, 2> packed_; ///< for each routine that some item needs
};

} // namespace mha
