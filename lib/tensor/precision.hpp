#pragma once
// Chooses the C++ type for the two precisions of computation.

#include <mha/tensor/tensor.hpp>

namespace mha {

/// use(double{}) for float64, use(float{}) for every other dtype.
template <class Use> decltype(auto) by_precision(DType dtype, Use&& use) {
  return dtype == DType::f64 ? use(double{}) : use(float{});
}

} // namespace mha
