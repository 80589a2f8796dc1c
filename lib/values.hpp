#pragma once
// Types of tensors as arrays of xtensor (<mha/xtensor.hpp>).

#include <cstddef>

namespace mha {

/// The number of axes is not part of an array's type.
inline constexpr std::size_t any_rank = static_cast<std::size_t>(-1);
/// The xtensor expression for a tensor of T (<mha/xtensor.hpp>), which has its shape and shares its
/// memory; with N axes in its type, or as many as the tensor has.
template <class T, std::size_t N = any_rank> struct ValuesOf;
/// The type itself.
template <class T, std::size_t N = any_rank> using Values = typename ValuesOf<T, N>::type;

} // namespace mha
