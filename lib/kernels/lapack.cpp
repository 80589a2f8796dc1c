#include <mha/kernels/lapack.hpp>

#include <algorithm>
#include <cstddef>
#include <dlfcn.h>
#include <limits>
#include <mutex>
#include <type_traits>

namespace mha {

namespace {

/// LAPACK's dgesdd (Fortran: everything by reference, the length of a text at the end).
using Gesdd = void (*)(const char* jobz, const int* m, const int* n, double* a, const int* lda,
                       double* s, double* u, const int* ldu, double* vt, const int* ldvt,
                       double* work, const int* lwork, int* iwork, int* info, std::size_t);

/// dgeev: eigenvalues as real and imaginary parts.
using Geev = void (*)(const char* jobvl, const char* jobvr, const int* n, double* a, const int* lda,
                      double* wr, double* wi, double* vl, const int* ldvl, double* vr,
                      const int* ldvr, double* work, const int* lwork, int* info, std::size_t,
                      std::size_t);
/// dgelqf: A = L Q.
using Gelqf = void (*)(const int* m, const int* n, double* a, const int* lda, double* tau,
                       double* work, const int* lwork, int* info);

/// The LAPACK that was loaded. Debian may have OpenBLAS in its place, which has threads of its own:
/// one number for the process, and where OpenMP provides them also one for each calling thread.
struct Library {
  Gesdd gesdd = nullptr;
  Geev geev = nullptr;
  Gelqf gelqf = nullptr;
  int (*threads)() = nullptr;
  void (*set_threads)(int) = nullptr;
  int (*thread_threads)() = nullptr;
  void (*set_thread_threads)(int) = nullptr;
};

const Library& loaded() {
  // Never unloaded: it is needed until the program ends.
  static const Library library = [] {
    Library found;
    void* const handle = dlopen("liblapack.so.3", RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) return found;
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(handle, name));
    };
    find(found.gesdd, "dgesdd_");
    find(found.geev, "dgeev_");
    find(found.gelqf, "dgelqf_");
    find(found.threads, "openblas_get_num_threads");
    find(found.set_threads, "openblas_set_num_threads");
    if (found.threads == nullptr || found.set_threads == nullptr) return found;
    find(found.thread_threads, "omp_get_max_threads");
    find(found.set_thread_threads, "omp_set_num_threads");
    return found;
  }();
  return library;
}

/// Until it goes, LAPACK uses the calling thread alone: our own threads share out the matrices. The
/// number of the process is the host's again when the last of several calls ends.
class OneThread {
public:
  OneThread() {
    if (per_thread()) own_ = loaded().thread_threads();
    if (!per_process()) return;
    const std::lock_guard lock(mutex);
    if (calls++ == 0) before = loaded().threads();
    loaded().set_threads(1);
  }
  ~OneThread() {
    if (per_process()) {
      const std::lock_guard lock(mutex);
      if (--calls == 0) loaded().set_threads(before);
    }
    if (per_thread()) loaded().set_thread_threads(own_); // OpenBLAS sets it with the process's
  }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

private:
  static bool per_process() { return loaded().threads && loaded().set_threads; }
  static bool per_thread() { return loaded().thread_threads && loaded().set_thread_threads; }

  static inline std::mutex mutex;
  static inline std::size_t calls = 0;
  static inline int before = 1;
  int own_ = 1;
};

/// Whether LAPACK can be asked about a matrix: its sizes are ints, its elements numbers.
bool can_be_asked(Matrix<const double> matrix) {
  constexpr auto largest = static_cast<std::size_t>(std::numeric_limits<int>::max());
  return has_lapack() && std::max(matrix.rows, matrix.cols) <= largest && all_finite(matrix);
}

/// The elements row by row, which is LAPACK's transpose.
std::vector<double> elements_of(Matrix<const double> matrix) {
  std::vector<double> a(matrix.rows * matrix.cols);
  for (std::size_t i = 0; i < matrix.rows; ++i)
    std::copy_n(matrix.row(i), matrix.cols, a.data() + i * matrix.cols);
  return a;
}

/// Calls a routine twice: the first call returns the size of its workspace.
template <class Call> void with_workspace(const Call& call) {
  const OneThread one_thread;
  double best_size = 0;
  call(&best_size, -1);
  const int size = std::max(static_cast<int>(best_size), 1);
  std::vector<double> work(static_cast<std::size_t>(size));
  call(work.data(), size);
}

} // namespace

bool has_lapack() {
  return loaded().gesdd != nullptr && loaded().geev != nullptr && loaded().gelqf != nullptr;
}

std::optional<std::vector<double>> singular_values(Matrix<const double> matrix) {
  if (!can_be_asked(matrix)) return std::nullopt;
  const std::size_t least = std::min(matrix.rows, matrix.cols);
  std::vector<double> values(least);
  if (least == 0) return values;

  std::vector<double> a = elements_of(matrix); // the transpose has the same singular values
  const int m = static_cast<int>(matrix.cols), n = static_cast<int>(matrix.rows), one = 1;
  std::vector<int> integers(8 * least);
  int info = 0;
  double unused = 0;
  with_workspace([&](double* work, int size) {
    loaded().gesdd("N", &m, &n, a.data(), &m, values.data(), &unused, &one, &unused, &one, work,
                   &size, integers.data(), &info, 1);
  });
  if (info != 0) return std::nullopt; // did not converge
  return values;
}

std::optional<std::vector<std::complex<double>>> eigenvalues(Matrix<const double> matrix) {
  if (matrix.rows != matrix.cols || !can_be_asked(matrix)) return std::nullopt;
  const std::size_t count = matrix.rows;
  std::vector<std::complex<double>> values(count);
  if (count == 0) return values;

  std::vector<double> a = elements_of(matrix), re(count), im(count); // of the transpose: the same
  const int n = static_cast<int>(count), one = 1;
  int info = 0;
  double unused = 0;
  with_workspace([&](double* work, int size) {
    loaded().geev("N", "N", &n, a.data(), &n, re.data(), im.data(), &unused, &one, &unused, &one,
                  work, &size, &info, 1, 1);
  });
  if (info != 0) return std::nullopt;
  for (std::size_t i = 0; i < count; ++i) values[i] = {re[i], im[i]};
  return values;
}

std::optional<std::vector<double>> triangular_factor(Matrix<const double> matrix) {
  if (!can_be_asked(matrix)) return std::nullopt;
  const std::size_t rows = std::min(matrix.rows, matrix.cols), cols = matrix.cols;
  std::vector<double> factor(rows * cols);
  if (rows == 0) return factor;

  // LAPACK's L of the transpose is the transpose of R: row by row, R is stored where L is.
  std::vector<double> a = elements_of(matrix), tau(rows);
  const int m = static_cast<int>(cols), n = static_cast<int>(matrix.rows);
  int info = 0;
  with_workspace([&](double* work, int size) {
    loaded().gelqf(&m, &n, a.data(), &m, tau.data(), work, &size, &info);
  });
  if (info != 0) return std::nullopt;
  for (std::size_t i = 0; i < rows; ++i)
    std::copy_n(a.data() + i * cols + i, cols - i, factor.data() + i * cols + i);
  return factor;
}

} // namespace mha
