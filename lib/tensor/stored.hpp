#pragma once
// Storage orders of a matrix.

#include <mha/tensor/tensor.hpp>

namespace mha {

/// The form in which a matrix lies in its file; one that is stored as it is, whole.
StoredMatrix stored_form(const Tensor& matrix);

} // namespace mha
