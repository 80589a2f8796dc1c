#pragma once
// Numbers that somebody typed: a few decimals each.

#include <mha/tensor/tensor.hpp>

namespace mha {

/// How many decimals numbers in a text have, where they are few: there are at least eight numbers,
/// and of these at least two, and one in eight, have a last decimal that is not 0. Else 0.
int typed_decimals(const Tensor& numbers);
/// Half of the last digit, by which each of them may be off; 0 for no decimals.
double resolution_of(int decimals);

} // namespace mha
