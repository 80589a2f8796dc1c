#include <mha/kernels/lapack.hpp>

#include <algorithm>
#include <cstddef>
#include <dlfcn.h>
#include <limits>

namespace mha {

namespace {

/// LAPACK's dgesdd (Fortran: everything by reference, the length of a text at the end).
using Gesdd = void (*)(const char* jobz, const int* m, const int* n, double* a, const int* lda,
                       double* s, double* u, const int* ldu, double* vt, const int* ldvt,
                       double* work, const int* lwork, int* iwork, int* info, std::size_t);

Gesdd loaded_gesdd() {
  // Never unloaded: it is needed until the program ends.
  static const Gesdd gesdd = [] {
    void* library = dlopen("liblapack.so.3", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return Gesdd{};
    // Debian may have OpenBLAS in its place; our own threads share out the matrices.
    using SetThreads = void (*)(int);
    if (const auto set = reinterpret_cast<SetThreads>(dlsym(library, "openblas_set_num_threads")))
      set(1);
    return reinterpret_cast<Gesdd>(dlsym(library, "dgesdd_"));
  }();
  return gesdd;
}

} // namespace

bool has_lapack() {
  return loaded_gesdd() != nullptr;
}

std::optional<std::vector<double>> singular_values(Matrix<const double> matrix) {
  const Gesdd gesdd = loaded_gesdd();
  const std::size_t least = std::min(matrix.rows, matrix.cols);
  constexpr auto largest = static_cast<std::size_t>(std::numeric_limits<int>::max());
  if (gesdd == nullptr || std::max(matrix.rows, matrix.cols) > largest || !all_finite(matrix))
    return std::nullopt;
  std::vector<double> values(least);
  if (least == 0) return values;

  // Row by row is LAPACK's transpose, which has the same singular values.
  std::vector<double> a(matrix.rows * matrix.cols);
  for (std::size_t i = 0; i < matrix.rows; ++i)
    std::copy_n(matrix.row(i), matrix.cols, a.data() + i * matrix.cols);
  const int m = static_cast<int>(matrix.cols), n = static_cast<int>(matrix.rows), one = 1;
  std::vector<int> integers(8 * least);
  int info = 0, size = -1;
  double unused = 0, best_size = 0;
  const auto call = [&](double* work) {
    gesdd("N", &m, &n, a.data(), &m, values.data(), &unused, &one, &unused, &one, work, &size,
          integers.data(), &info, 1);
  };
  call(&best_size); // asks for the size of its workspace
  size = static_cast<int>(best_size);
  std::vector<double> work(static_cast<std::size_t>(std::max(size, 1)));
  call(work.data());
  if (info != 0) return std::nullopt; // did not converge
  return values;
}

} // namespace mha
