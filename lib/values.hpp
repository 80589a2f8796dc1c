#pragma once
// What arrays of xtensor are made of: <mha/xtensor.hpp> says how.

namespace mha {

/// What <mha/xtensor.hpp> makes of a tensor of T: an expression of shape() that shares its memory.
template <class T> struct ValuesOf;
/// The same by itself.
template <class T> using Values = typename ValuesOf<T>::type;

} // namespace mha
