#pragma once
// The precision that numbers really have: many implementations compute in float16 or bfloat16 and
// save what they got as float32.

#include <mha/tensor/tensor.hpp>

namespace mha {

/// The coarsest floating type that holds every number of `tensor` and whose last bit of significand
/// they use: bf16 where bfloat16 numbers are stored as float32 or float64, f16 and f32 likewise.
/// `stored` is the type in the file, and the answer where the numbers do not tell: fewer than 16
/// that are finite and not 0, or numbers of so few bits (0, 1, 0.5) that any type holds them.
DType precision_of(const Tensor& tensor, DType stored);

/// float16 or bfloat16.
bool is_short(DType dtype);

/// How many decimals numbers in a text have, where they are few: there are at least eight numbers,
/// and of these at least two, and one in eight, have a last decimal that is not 0. Else 0.
int typed_decimals(const Tensor& numbers);
/// Half of the last digit, by which each of them may be off; 0 for no decimals.
double resolution_of(int decimals);

} // namespace mha
