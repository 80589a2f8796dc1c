#include <mha/kernels/lapack.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <complex>
#include <dlfcn.h>
#include <thread>
#include <vector>

namespace {

/// A matrix of `n` rows whose singular values are its diagonal, largest first.
std::vector<double> diagonal(std::size_t n) {
  std::vector<double> numbers(n * n);
  for (std::size_t i = 0; i < n; ++i) numbers[i * n + i] = static_cast<double>(n - i);
  return numbers;
}

/// How far the singular values of such a matrix are off; infinite if there are none.
double error_of(std::size_t n) {
  const std::vector<double> numbers = diagonal(n);
  const auto values = mha::singular_values({numbers.data(), n, n, n});
  if (!values || values->size() != n) return INFINITY;
  double error = 0;
  for (std::size_t i = 0; i < n; ++i)
    error = std::max(error, std::fabs((*values)[i] - static_cast<double>(n - i)));
  return error;
}

template <class Function> Function* of_lapack(const char* name) {
  void* const library = dlopen("liblapack.so.3", RTLD_NOW | RTLD_LOCAL);
  return library ? reinterpret_cast<Function*>(dlsym(library, name)) : nullptr;
}

} // namespace

TEST_CASE("lapack: singular values, largest first, from several threads") {
  if (!mha::has_lapack()) {
    WARN("skipped: no " << mha::lapack_package << " here");
    return;
  }
  std::vector<double> errors(4);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < errors.size(); ++i)
    threads.emplace_back([&, i] { errors[i] = error_of(40 + i); });
  for (std::thread& thread : threads) thread.join();
  for (const double error : errors) CHECK(error < 1e-12);
}

TEST_CASE("lapack: complex eigenvalues, a triangular factor, nothing of what is not finite") {
  if (!mha::has_lapack()) {
    WARN("skipped: no " << mha::lapack_package << " here");
    return;
  }
  // A turn by a right angle, and 5: i, −i and 5.
  const std::vector<double> turn{0, -1, 2, 1, 0, 3, 0, 0, 5};
  auto values = *mha::eigenvalues({turn.data(), 3, 3, 3});
  std::ranges::sort(values, {}, [](const auto& value) { return value.imag(); });
  CHECK(std::abs(values[0] - std::complex<double>(0, -1)) < 1e-14);
  CHECK(std::abs(values[1] - std::complex<double>(5, 0)) < 1e-14);
  CHECK(std::abs(values[2] - std::complex<double>(0, 1)) < 1e-14);
  CHECK_FALSE(mha::eigenvalues({turn.data(), 2, 3, 3}));

  // RᵀR = AᵀA, zeros below the diagonal; of a matrix that is a part of another one, and of a wide
  // one.
  for (const auto& [rows, cols] : {std::pair<std::size_t, std::size_t>{5, 3}, {3, 3}, {2, 4}}) {
    std::vector<double> a(rows * 6);
    for (std::size_t i = 0; i < a.size(); ++i) a[i] = std::sin(static_cast<double>(7 * i * i + 1));
    const std::vector<double> R = *mha::triangular_factor({a.data(), rows, cols, 6});
    const std::size_t least = std::min(rows, cols);
    REQUIRE(R.size() == least * cols);
    for (std::size_t i = 0; i < cols; ++i)
      for (std::size_t j = 0; j < cols; ++j) {
        double of_a = 0, of_R = 0;
        for (std::size_t k = 0; k < rows; ++k) of_a += a[k * 6 + i] * a[k * 6 + j];
        for (std::size_t k = 0; k < least; ++k) of_R += R[k * cols + i] * R[k * cols + j];
        CHECK(std::abs(of_a - of_R) < 1e-14);
        if (i < least && j < i) CHECK(R[i * cols + j] == 0);
      }
  }
  const std::vector<double> broken{1, NAN, 2, 3};
  CHECK_FALSE(mha::eigenvalues({broken.data(), 2, 2, 2}));
  CHECK_FALSE(mha::triangular_factor({broken.data(), 2, 2, 2}));
}

TEST_CASE(
    "lapack: the host's number of OpenBLAS's threads is as it was, after one call or several") {
  const auto get = of_lapack<int()>("openblas_get_num_threads");
  const auto set = of_lapack<void(int)>("openblas_set_num_threads");
  if (!get || !set) {
    WARN("skipped: LAPACK is not OpenBLAS's here");
    return;
  }
  const auto own = of_lapack<int()>("omp_get_max_threads"); // where it was built with OpenMP
  const int before = get();
  for (const int number : {2, 3}) {
    set(number);
    CHECK(error_of(30) < 1e-12);
    CHECK(get() == number);
    if (own) CHECK(own() == number);
    std::vector<std::thread> threads;
    std::vector<int> changed(6);
    for (int& change : changed)
      threads.emplace_back([&change, own] {
        for (std::size_t n = 20; n < 60; ++n) {
          const int mine = own ? own() : 0;
          error_of(n);
          change += own && own() != mine;
        }
      });
    for (std::thread& thread : threads) thread.join();
    CHECK(get() == number);
    for (const int change : changed) CHECK(change == 0);
  }
  set(before);
}
