#pragma once
// Sums of the residual stream.

#include <mha/schedule/tokens.hpp>

namespace mha {

/// y = x + other.
template <class T> void add_rows(Matrix<const T> x, Matrix<const T> other, Matrix<T> y) {
  for (std::size_t t = 0; t < x.rows; ++t)
    for (std::size_t i = 0; i < x.cols; ++i) y.row(t)[i] = x.row(t)[i] + other.row(t)[i];
}

/// to = X + from: what a layer adds to the stream.
template <class T> class AddTo : public RowOperator<T> {
public:
  explicit AddTo(const Tensor& X) : X_(X) {}
  Needs needs() const override { return Needs::row; }
  void apply(const TokenRows<T>& rows, Stage from, Stage to) const override {
    add_rows<T>(rows.of(X_), rows[from], rows[to]);
  }

private:
  const Tensor& X_;
};

} // namespace mha
