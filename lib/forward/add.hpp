#pragma once
// Sums of the residual stream.

#include <mha/kernels/rows.hpp>
#include <mha/schedule/tokens.hpp>

#include <algorithm>

namespace mha {

/// to = X + from: what a layer adds to the stream.
template <class T> class AddTo : public RowOperator<T> {
public:
  explicit AddTo(const Tensor& X) : X_(X) {}
  Needs needs() const override { return Needs::row; }
  void apply(const TokenRows<T>& rows, Stage from, Stage to) const override {
    const Matrix<const T> X = rows.of(X_), added = rows[from];
    const Matrix<T> sum = rows[to];
    for (std::size_t i = 0; i < sum.rows; ++i) {
      std::copy_n(X.row(i), sum.cols, sum.row(i));
      row_add(sum.row(i), added.row(i), sum.cols);
    }
  }

private:
  const Tensor& X_;
};

} // namespace mha
