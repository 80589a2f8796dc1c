#pragma once
// Norms: of x before the projections, of q and k after them.

#include <mha/layer/layer.hpp>
#include <mha/schedule/tokens.hpp>

namespace mha {

/// out = x / rms(x) · weight, rms over the n elements: √(mean(x²) + eps). Empty weight (nullptr)
/// = 1. `one_plus`: times (1 + weight), as Gemma does. Zhang & Sennrich 2019.
template <class T>
void rms_norm(const T* x, const T* weight, std::size_t n, double eps, bool one_plus, T* out);

/// out = (x − mean) / √(var + eps) · weight + bias; nullptr = 1 and 0. Ba et al. 2016.
template <class T>
void layer_norm(const T* x, const T* weight, const T* bias, std::size_t n, double eps, T* out);

/// x = norm(X): the input norm, layer or RMS.
template <class T> class InputNormOf : public RowOperator<T> {
public:
  explicit InputNormOf(const Layer& layer) : layer_(layer) {}
  Needs needs() const override { return Needs::row; }
  void apply(const TokenRows<T>& rows, Stage from, Stage to) const override;

private:
  const Layer& layer_;
};

/// RMS norm of queries or keys. The weight is d_k long, one for every head, or as long as the
/// projection: then the whole row is one.
template <class T> class HeadNorm : public RowOperator<T> {
public:
  HeadNorm(const Layer& layer, const Tensor& weight) : layer_(layer), weight_(weight) {}
  Needs needs() const override {
    return weight_.count() == layer_.dims.d_k ? Needs::head : Needs::row;
  }
  void apply(const TokenRows<T>& rows, Stage from, Stage to) const override;

private:
  const Layer& layer_;
  const Tensor& weight_;
};

} // namespace mha
