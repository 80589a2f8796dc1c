#pragma once
// The precision that numbers really have: many implementations compute in float16 or bfloat16 and
// save the results as float32, or numbers were typed with a few decimals.

#include <mha/tensor/tensor.hpp>

namespace mha {

/// The coarsest floating type that holds every number of `tensor` and whose last bit of significand
/// they use: bf16 where bfloat16 numbers are stored as float32 or float64, f16 and f32 likewise.
/// `stored` is the type in the file, and the answer where the numbers do not decide: fewer than 16
/// are finite and not 0, or they have so few bits (0, 1, 0.5) that any type holds them.
DType precision_of(const Tensor& tensor, DType stored);

/// float16 or bfloat16.
bool is_short(DType dtype);

/// How many decimals typed numbers have, or 0. At least eight numbers are needed, and at least two
/// of them, and one in eight, must have a last decimal that is not 0.
int typed_decimals(const Tensor& numbers);
/// Half of the last decimal, the error of a typed number; 0 for no decimals.
double resolution_of(int decimals);

} // namespace mha
