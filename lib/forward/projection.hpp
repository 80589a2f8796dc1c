#pragma once
// What is done with rows of tokens before they meet: projections, QK normalisation, rotary
// embedding. Rows are heads side by side; a plan may need only some of the heads.

#include <mha/forward/rotary.hpp>
#include <mha/kernels/packed.hpp>
#include <mha/schedule/plan.hpp>

namespace mha {

/// y = x W + b; no W is the identity, no b is zero.
template <class T> class Projection {
public:
  /// Prepares W for products of `rows` rows in all; for none, nothing is done.
  Projection(Routine routine, const Tensor& W, const Tensor& bias, std::size_t rows,
             std::size_t threads);
  /// The columns of some heads, each `width` wide, and what it takes of their neighbours to begin
  /// and end at whole tiles: tiles follow from the number of columns alone, for the same bits.
  void multiply(Matrix<const T> x, std::size_t width, HeadRange heads, Matrix<T> y) const;

private:
  const Tensor& W_;
  const Tensor& bias_;
  PackedMatrix<T> right_;
};

/// The heads that have to be projected for these: all of them where they are normalised together.
HeadRange projected(HeadRange heads, std::size_t all, const Tensor& norm, std::size_t width);

/// RMS norm of heads. The weight is d_k long, one for every head, or as long as the projection:
/// then the whole row is one.
template <class T> void norm_heads(const Layer& layer, Matrix<const T> x, const Tensor& weight,
                                   HeadRange heads, Matrix<T> y);

/// Rotary embedding of the heads of the tokens from `first` on.
template <class T> void rotate_heads(const Layer& layer, const RotaryTable<T>& table,
                                     Matrix<const T> x, std::size_t first, HeadRange heads,
                                     Matrix<T> y);

} // namespace mha
