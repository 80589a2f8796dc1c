#pragma once
// The elementary functions that decide a layer's numbers, with the same bits on every machine: the
// C library's depend on its version and on the processor. They round only additions, subtractions,
// multiplications and divisions of doubles, which IEEE 754 defines to the last bit, and no compiler
// fuses them (-ffp-contract=off).
//
// Results in double are within 0.53 units of the last place (erf of subnormals 0.63), in float within
// 0.501: next to correctly rounded (tests/unit/maths). Arguments outside a function's domain give
// NaN, NaN gives NaN, limits are taken at ±0 and ±∞ (C17, F.10).

#include <cstddef>

namespace mha::maths {

/// eˣ, 2ˣ; subnormal results are rounded once.
double exp(double x);
double exp2(double x);
/// ln x, ln(1 + x).
double log(double x);
double log1p(double x);
/// xʸ; for negative x if y is an integer.
double pow(double x, double y);

/// sin x and cos x, of any finite x.
struct SinCos {
  double sin, cos;
};
SinCos sin_cos(double x);
double sin(double x);
double cos(double x);

/// erf x = 2/√π ∫₀ˣ exp(−t²) dt, and tanh x.
double erf(double x);
double tanh(double x);

float exp(float x);
float log(float x);
float log1p(float x);

/// row := exp(row), row := erf(row · factor), row := tanh(row / divisor), element by element;
/// product and quotient are rounded to T.
template <class T> void exp_row(T* row, std::size_t n);
template <class T> void erf_row(T* row, std::size_t n, T factor);
template <class T> void tanh_row(T* row, std::size_t n, T divisor);

} // namespace mha::maths
