#pragma once
// Sums of the residual stream.

#include <mha/forward/norm.hpp>
#include <mha/kernels/rows.hpp>

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

/// The stream after a block; `from` is mlp_add.
template <class T> class BlockSum : public RowOperator<T> {
public:
  explicit BlockSum(const TransformerBlock& block) : block_(block), norm_(block.post_block_norm) {}
  Needs needs() const override { return Needs::row; }
  void prepare(const Usage& usage) override { norm_.prepare(usage); }
  void release() override { norm_.release(); }
  void apply(const TokenRows<T>& rows, Stage from, Stage to) const override {
    add(rows, from, to);
    const Matrix<T> y = rows[to];
    for (std::size_t t = 0; block_.stream_scale != 1 && t < y.rows; ++t)
      row_scale(y.row(t), y.cols, static_cast<T>(block_.stream_scale));
  }

private:
  void add(const TokenRows<T>& rows, Stage from, Stage to) const {
    using enum Stage;
    switch (block_.shape) {
    case BlockShape::attention_only:
      return add_rows<T>(rows[resid_pre], rows[attn_add], rows[to]);
    case BlockShape::parallel:
      add_rows<T>(rows[resid_pre], rows[attn_add], rows[to]);
      return add_rows<T>(rows[to], rows[from], rows[to]);
    case BlockShape::post:
      add_rows<T>(rows[mlp_x], rows[from], rows[to]);
      return norm_.apply(rows, to, to);
    default:
      add_rows<T>(rows[residual], rows[from], rows[to]);
      if (block_.supplement.present()) add_rows<T>(rows[to], rows[layer_add], rows[to]);
    }
  }

  const TransformerBlock& block_;
  NormOf<T> norm_;
};

} // namespace mha
