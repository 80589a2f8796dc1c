#pragma once
// Singular values, eigenvalues and triangular factors by LAPACK, which is loaded when they are
// first asked for: programs that never ask start without it.

#include <mha/kernels/matrix.hpp>

#include <complex>
#include <optional>
#include <vector>

namespace mha {

/// Where LAPACK comes from, for messages.
inline constexpr const char* lapack_package = "liblapack3";

/// Whether LAPACK can be loaded. The first call tries.
bool has_lapack();

/// The singular values of a matrix, largest first: min(rows, columns) of them. Nothing if an
/// element is not finite, or where LAPACK is missing. Safe to call from several threads. While it
/// runs, an OpenBLAS in LAPACK's place uses one thread a call; afterwards the host's setting is as
/// it was.
std::optional<std::vector<double>> singular_values(Matrix<const double> matrix);

/// The eigenvalues of a square matrix, in LAPACK's order. Nothing, and threads, as above.
std::optional<std::vector<std::complex<double>>> eigenvalues(Matrix<const double> matrix);

/// R of the thin factorisation A = Q R, Q with orthonormal columns: min(rows, columns) rows, row by
/// row. Nothing, and threads, as above.
std::optional<std::vector<double>> triangular_factor(Matrix<const double> matrix);

} // namespace mha
