#pragma once
// How numbers are stored: memory that is taken late, byte order, the stored form of a matrix.

#include <mha/tensor/tensor.hpp>

namespace mha {

/// Zeros, in memory that is taken as they are written: for the texts of a batch, with the padding
/// behind each.
Tensor sparse_zeros(DType dtype, Shape shape);

/// The form in which a matrix lies in its file; one that is stored as it is, whole.
StoredMatrix stored_form(const Tensor& matrix);

/// Reverses the bytes of each of `count` elements of `size` bytes, in place.
void swap_bytes(std::byte* data, std::size_t count, std::size_t size);

} // namespace mha
