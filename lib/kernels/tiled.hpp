#pragma once
// Our own product: blocks that fit the caches, tiles that fit the registers.

#include "kernels/matrix.hpp"
#include "kernels/table.hpp"

namespace mha {

/// c = a · op(b), or c += a · op(b), by the kernels of one instruction set; op is the transposition
/// or nothing. Each element is one chain of multiply-adds over k = 0, 1, …, from 0 or from c, so
/// its bits depend on its own row of a and column of op(b) alone.
template <class T> void multiply_tiled(const Kernels<T>& kernels, Matrix<const T> a,
                                       Matrix<const T> b, bool transposed, Matrix<T> c,
                                       bool accumulate);

} // namespace mha
