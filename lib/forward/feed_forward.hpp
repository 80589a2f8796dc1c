#pragma once
// The activation of a feed-forward.

#include <mha/forward/norm.hpp>
#include <mha/kernels/matrix.hpp>

namespace mha {

/// y = act(x), row by row.
template <class T> void activate(Activation activation, Matrix<const T> x, Matrix<T> y);

/// y = norm(act(x) + b), with a gated one's factor: norm(act(x) · up + b); up is mlp_up.
template <class T> class Activated : public RowOperator<T> {
public:
  explicit Activated(const FeedForward& mlp)
      : activation_(mlp.activation),
        is_gated_(mlp.gated()),
        b_(mlp.product_bias),
        norm_(mlp.inner) {}
  explicit Activated(const ModelHead& head)
      : activation_(head.activation), is_gated_(false), norm_(head.norm) {}

  Needs needs() const override {
    return activation_ == Activation::solu || norm_.present() ? Needs::row : Needs::head;
  }
  void prepare(const Usage& usage) override;
  void release() override { b_in_use_ = {}, norm_.release(); }
  void apply(const TokenRows<T>& rows, Stage from, Stage to) const override;

private:
  Activation activation_;
  bool is_gated_;
  Tensor b_, b_in_use_; ///< in the file's precision, in T
  NormOf<T> norm_;
};

} // namespace mha
