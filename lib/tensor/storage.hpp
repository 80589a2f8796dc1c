#pragma once
// Storage of tensors: lazily allocated memory, byte order, and the stored form of a matrix.

#include <mha/tensor/tensor.hpp>

namespace mha {

/// Zeros whose memory is allocated only when it is written: for batches of texts with padding after
/// each text.
Tensor sparse_zeros(DType dtype, Shape shape);

/// The stored form of a matrix; for a plain matrix, the matrix itself.
StoredMatrix stored_form(const Tensor& matrix);

/// Reverses the bytes of each of `count` elements of `size` bytes, in place.
void swap_bytes(std::byte* data, std::size_t count, std::size_t size);

} // namespace mha
