#pragma once
// The two precisions in which layers are computed, as types.

#include <mha/tensor/tensor.hpp>

namespace mha {

/// use(double{}) for float64, use(float{}) for every other dtype.
template <class Use> decltype(auto) by_precision(DType dtype, Use&& use) {
  return dtype == DType::f64 ? use(double{}) : use(float{});
}

} // namespace mha
