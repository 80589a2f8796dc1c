#pragma once
// Types of numbers that become arrays of xtensor (<mha/xtensor.hpp>).

#include <cstddef>

namespace mha {

/// The number of axes that an array's type does not say.
inline constexpr std::size_t any_rank = static_cast<std::size_t>(-1);
/// What <mha/xtensor.hpp> makes of a tensor of T: an expression of shape() that shares its memory;
/// with N axes in its type, or as many as the tensor has.
template <class T, std::size_t N = any_rank> struct ValuesOf;
/// The same by itself.
template <class T, std::size_t N = any_rank> using Values = typename ValuesOf<T, N>::type;

} // namespace mha
