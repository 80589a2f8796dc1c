#pragma once
// The activation of a feed-forward.

#include <mha/forward/norm.hpp>
#include <mha/kernels/matrix.hpp>

namespace mha {

/// y = act(x), row by row.
template <class T> void activate(Activation activation, Matrix<const T> x, Matrix<T> y);

/// y = norm(act(x) + b), with a gated one's factor: norm(act(x) · up + b); up is mlp_up. Of
/// experts, up + 1 may be the factor. With a clamp, x or act(x) is limited from above, up from both
/// sides.
template <class T> class Activated : public RowOperator<T> {
public:
  explicit Activated(const FeedForward& mlp)
      : activation_(mlp.activation),
        is_gated_(mlp.gated()),
        clamp_(mlp.clamp),
        b_(mlp.product_bias),
        norm_(mlp.inner) {}
  explicit Activated(const ModelHead& head)
      : activation_(head.activation), is_gated_(false), norm_(head.norm) {}
  /// Of the shared experts, whose other factor is shared_up.
  Activated(const FeedForward& shared, Stage up) : Activated(shared) { up_ = up; }
  /// Of chosen experts, side by side.
  Activated(const ExpertForm& form, bool is_gated)
      : activation_(form.activation),
        is_gated_(is_gated),
        clamp_(form.clamp),
        up_plus_one_(form.up_plus_one),
        norm_(none_) {}

  Needs needs() const override {
    return activation_ == Activation::solu || norm_.present() ? Needs::row : Needs::head;
  }
  void prepare(const Usage& usage) override;
  void release() override { b_in_use_ = {}, norm_.release(); }
  void apply(const TokenRows<T>& rows, Stage from, Stage to) const override;

private:
  void activate_clamped(Matrix<const T> x, Matrix<T> y) const;
  void multiply_by_up(Matrix<const T> up, Matrix<T> y) const;

  static inline const Norm none_;
  Activation activation_;
  bool is_gated_;
  Stage up_ = Stage::mlp_up;
  Clamp clamp_ = {};
  bool up_plus_one_ = false;
  Tensor b_, b_in_use_; ///< in the file's precision, in T
  NormOf<T> norm_;
};

} // namespace mha
