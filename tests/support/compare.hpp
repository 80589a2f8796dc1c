#pragma once
// Comparing whole arrays: one answer a stage, with the worst place.

#include "support/reference.hpp"
#include <mha/tensor/tensor.hpp>

#include <string>

/// Empty where they agree, else what differs and where: |got − want| ≤ bound everywhere; infinities
/// and NaN at the same places.
std::string compare(const mha::Tensor& got, const mha::Tensor& want, double bound);
/// The same bytes, shape and dtype; NaN is equal to NaN of the same bits only.
std::string compare_bits(const mha::Tensor& got, const mha::Tensor& want);
/// The largest finite magnitude; 0 if there is none.
double magnitude(const mha::Tensor& tensor);
double magnitude(const reference::Array& array);
