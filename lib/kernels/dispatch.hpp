#pragma once
// Which instruction set this machine runs: decided once, at run time.

#include "kernels/table.hpp"

#include <span>

namespace mha {

/// The kernels of every instruction set that this machine can run, the portable ones first, the
/// ones in use last.
template <class T> std::span<const Kernels<T>* const> available_kernels();

/// The kernels in use: the last of the available ones.
template <class T> const Kernels<T>& kernels();

} // namespace mha
