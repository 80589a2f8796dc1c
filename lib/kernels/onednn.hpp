#pragma once
// Products by oneDNN, on one thread.

#include "kernels/matrix.hpp"

namespace mha {

/// c = a · op(b), or c += a · op(b); op is the transposition or nothing. No size may be 0.
void multiply_onednn(Matrix<const float> a, Matrix<const float> b, bool transposed, Matrix<float> c,
                     bool accumulate);

} // namespace mha
