#include <mha/kernels/lapack.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
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
