#pragma once
// Multi-head latent attention (DeepSeek-V2, 2024): queries, keys and values are expanded from
// compressed rows, and one part of the key, which has the position, is every head's.

#include <mha/forward/norm.hpp>
#include <mha/schedule/linear.hpp>

namespace mha {

/// c = norm(x W + b), RMS: the compressed rows. No weight is 1.
template <class T> class Compressed : public RowOperator<T> {
public:
  Compressed(const Routines& routines, const Layer& layer, const Tensor& W, const Tensor& bias,
             const Tensor& norm)
      : layer_(layer), W_(routines, layer, W, bias), norm_(norm) {}

  Needs needs() const override { return Needs::row; }
  const Tensor* weight() const override { return W_.weight(); }
  void prepare(const Usage& usage) override { W_.prepare(usage); }
  void release() override { W_.release(); }
  void apply(const TokenRows<T>& rows, Stage from, Stage to) const override;

private:
  const Layer& layer_;
  Linear<T> W_;
  const Tensor& norm_;
};

/// k = [c_kv W_k, k_pe]: W_k makes zeros where every head gets the shared part. A layer without one
/// has k = x W_k + b_k.
template <class T> class JoinedKeys : public RowOperator<T> {
public:
  JoinedKeys(const Layer& layer, Linear<T>& W_k, double limit)
      : layer_(layer), W_k_(W_k), shared_(layer.dims.d_pe), limit_(static_cast<T>(limit)) {}

  const Tensor* weight() const override { return W_k_.weight(); }
  void prepare(const Usage& usage) override { W_k_.prepare(usage); }
  void release() override { W_k_.release(); }
  void apply(const TokenRows<T>& rows, Stage from, Stage to) const override;

private:
  const Layer& layer_;
  Linear<T>& W_k_;
  std::size_t shared_; ///< d_pe
  T limit_;            ///< the shared part is clipped like the others
};

} // namespace mha
