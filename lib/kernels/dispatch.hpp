#pragma once
// Which instruction set this machine runs: decided once, at run time. The environment variable
// MHA_CPU limits what is used (system/cpu.hpp).

#include <mha/kernels/simd/table.hpp>

#include <span>

namespace mha {

struct Bf16x3Kernels;

/// The kernels of every instruction set that this machine can run, the portable ones first, the
/// ones in use last.
template <class T> std::span<const Kernels<T>* const> available_kernels();

/// What multiplies split numbers (bf16x3.hpp) on this machine, null if nothing does.
const Bf16x3Kernels* bf16x3_kernels();

/// Takes these for split numbers, or (null) again what the machine has: for tests, which emulate
/// AMX where there is none. Not while a layer is computed.
void set_bf16x3_kernels(const Bf16x3Kernels* kernels);

/// The kernels in use: the last of the available ones.
template <class T> const Kernels<T>& kernels();

} // namespace mha
