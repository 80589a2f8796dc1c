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

/// LAPACK as it was loaded. Debian may have OpenBLAS in its place, which has threads of its own:
/// one number for the process, and where OpenMP provides them one for each calling thread, too.
struct Library {
  Gesdd gesdd = nullptr;
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

} // namespace

bool has_lapack() {
  return loaded().gesdd != nullptr;
}

std::optional<std::vector<double>> singular_values(Matrix<const double> matrix) {
  const Gesdd gesdd = loaded().gesdd;
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
  const OneThread one_thread;
  call(&best_size); // asks for the size of its workspace
  size = static_cast<int>(best_size);
  std::vector<double> work(static_cast<std::size_t>(std::max(size, 1)));
  call(work.data());
  if (info != 0) return std::nullopt; // did not converge
  return values;
}

} // namespace mha
