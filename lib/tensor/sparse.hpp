#pragma once
// Tensors of which most numbers are never written.

#include <mha/tensor/tensor.hpp>

namespace mha {

/// Zeros, in memory that is taken as they are written: for the texts of a batch, with the padding
/// behind each.
Tensor sparse_zeros(DType dtype, Shape shape);

} // namespace mha
