#pragma once
// What a step applies to many rows, prepared once: weights are packed just before the first phase
// that reads them, and dropped after the last.

#include <mha/kernels/packed.hpp>
#include <mha/schedule/tiles.hpp>
#include <mha/tensor/tensor.hpp>

namespace mha {

/// Something that a phase prepares before its tasks, and drops after them.
class Prepared {
public:
  Prepared() = default;
  virtual ~Prepared() = default;
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;

  /// Ready for `rows` rows in all, made by up to `threads` threads.
  virtual void prepare(std::size_t rows, std::size_t threads) = 0;
  virtual void release() = 0;
};

/// y = x W + b; no W is the identity, no b is zero. Tensors that the layer lets go after the phase.
template <class T> class Linear : public Prepared {
public:
  Linear(Routine routine, const Tensor& W, const Tensor& bias)
      : routine_(routine), W_(W), bias_(bias) {}

  void prepare(std::size_t rows, std::size_t threads) override;
  void release() override { packed_ = {}; }

  /// Columns [columns.first, columns.last) of y, and what begins and ends whole strips: a product
  /// writes strips of PackedMatrix::column_step.
  void operator()(Matrix<const T> x, ColumnRange columns, Matrix<T> y) const;
  /// y = x W[rows, all], for the rows of W that belong to one head; no bias.
  void rows_of_head(Matrix<const T> x, std::size_t head, Matrix<T> y) const;

private:
  Routine routine_;
  const Tensor& W_;
  const Tensor& bias_;
  PackedMatrix<T> packed_;
};

} // namespace mha
