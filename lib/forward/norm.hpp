#pragma once
// Norms: of rows of the stream, of x before the projections, of q and k after them.

#include <mha/layer/block.hpp>
#include <mha/layer/layer.hpp>
#include <mha/schedule/tokens.hpp>

namespace mha {

/// By how much q, k and v are clipped when they are projected; 0: not. Queries and keys that are
/// normalised are clipped after that (OLMoE).
struct Clip {
  double q = 0, k = 0, v = 0;
};
Clip clip_of(const Layer& layer);

/// y = x / rms(x) · weight, row by row; rms over a row's n elements: √(mean(x²) + eps). Empty
/// weight (nullptr) = 1. `one_plus`: times (1 + weight), as Gemma does. Zhang & Sennrich 2019.
template <class T>
void rms_norm(Matrix<const T> x, const T* weight, double eps, bool one_plus, Matrix<T> y);

/// The norm with its weight and bias in `dtype`.
Norm in_precision(const Norm& norm, DType dtype);
/// y = norm(x), row by row; no norm hands x on. The norm's weight is in T.
template <class T> void norm_rows(const Norm& norm, Matrix<const T> x, Matrix<T> y);

/// y = norm(x): a norm of the stream.
template <class T> class NormOf : public RowOperator<T> {
public:
  explicit NormOf(const Norm& norm) : norm_(norm) {}
  bool present() const { return norm_.present(); }
  Needs needs() const override { return Needs::row; }
  void prepare(const Usage&) override { in_use_ = in_precision(norm_, dtype_of<T>); }
  void release() override { in_use_ = {}; }
  void apply(const TokenRows<T>& rows, Stage from, Stage to) const override {
    norm_rows<T>(in_use_, rows[from], rows[to]);
  }

private:
  const Norm& norm_;
  Norm in_use_; ///< in T
};

/// x = norm(X): the input norm.
template <class T> class InputNormOf : public RowOperator<T> {
public:
  explicit InputNormOf(const Layer& layer) : layer_(layer) {}
  Needs needs() const override { return Needs::row; }
  void apply(const TokenRows<T>& rows, Stage from, Stage to) const override;

private:
  const Layer& layer_;
};

/// What a norm of heads does: of which kind it is, and by how much its results are clipped.
struct HeadNormForm {
  QkNorm kind = QkNorm::rms;
  double eps = 1e-6;
  bool one_plus = false;
  double clip = 0; ///< 0: not
};
/// Of queries and keys, as the layer's settings have it; of values and heads' results.
HeadNormForm qk_norm_of(const Layer& layer);
HeadNormForm rms_norm_of_heads(const Layer& layer);

/// RMS or layer norm of heads' rows: queries, keys, values or results. The weight is one head long
/// (`width`), one for every head; heads × width, each head's own (Cohere, StableLM); or as long as
/// all heads: then the whole row is one.
template <class T> class HeadNorm : public RowOperator<T> {
public:
  HeadNorm(const HeadNormForm& form, std::size_t width, const Tensor& weight,
           const Tensor& bias = none_)
      : form_(form), head_width_(width), weight_(weight), bias_(bias) {}
  Needs needs() const override { return width() == head_width_ ? Needs::head : Needs::row; }
  void apply(const TokenRows<T>& rows, Stage from, Stage to) const override;

private:
  /// Of what is normalised together.
  std::size_t width() const { return weight_.rank() == 2 ? weight_.shape()[1] : weight_.count(); }

  static inline const Tensor none_;
  HeadNormForm form_;
  std::size_t head_width_;
  const Tensor &weight_, &bias_;
};

} // namespace mha
