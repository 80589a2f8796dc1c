// How fast the kernels are: products and exponentials of the shapes that occur, on one core.
// Built by `ninja kernel-bench`; prints GFLOP/s and Gelem/s, beside oneDNN's where libdnnl-dev is.

#include <mha/kernels/dispatch.hpp>
#include <mha/kernels/tiled.hpp>

#ifdef MHA_BENCH_ONEDNN
#include <oneapi/dnnl/dnnl.h>
extern "C" void omp_set_num_threads(int);
#endif

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <random>
#include <vector>

namespace {

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// The shortest of several runs, each long enough to measure.
template <class Work> double time_of(const Work& work) {
  work();
  double best = std::numeric_limits<double>::infinity();
  int times = 1;
  for (int round = 0; round < 7; ++round) {
    const double start = seconds();
    for (int i = 0; i < times; ++i) work();
    const double took = seconds() - start;
    best = std::min(best, took / times);
    if (took < 0.02) times *= 1 + static_cast<int>(0.02 / (took + 1e-9)), --round;
  }
  return best;
}

struct Shape {
  std::size_t m, n, k;
  bool transposed;
};

template <class T> std::vector<T> random_numbers(std::size_t n) {
  static std::mt19937 rng(1);
  std::uniform_real_distribution<T> uniform(-1, 1);
  std::vector<T> numbers(n);
  for (T& x : numbers) x = uniform(rng);
  return numbers;
}

template <class T> void time_products(const Shape& s) {
  const std::vector<T> a = random_numbers<T>(s.m * s.k), b = random_numbers<T>(s.k * s.n);
  std::vector<T> c(s.m * s.n);
  const mha::Matrix<const T> left = {a.data(), s.m, s.k, s.k};
  const mha::Matrix<const T> right = s.transposed ? mha::Matrix<const T>{b.data(), s.n, s.k, s.k}
                                                  : mha::Matrix<const T>{b.data(), s.k, s.n, s.n};
  const mha::Matrix<T> result = {c.data(), s.m, s.n, s.n};
  const double operations =
      2.0 * static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k);
  fmt::print("{:>4} x {:>4} x {:>4} {} f{}", s.m, s.n, s.k, s.transposed ? "T" : " ",
             sizeof(T) * 8);
  for (const mha::Kernels<T>* kernels : mha::available_kernels<T>()) {
    const double took = time_of(
        [&] { mha::multiply_tiled<T>(*kernels, left, right, s.transposed, result, false); });
    fmt::print("  {} {:6.1f}", kernels->name, operations / took * 1e-9);
  }
#ifdef MHA_BENCH_ONEDNN
  if constexpr (sizeof(T) == sizeof(float)) {
    const auto size = [](std::size_t n) { return static_cast<dnnl_dim_t>(n); };
    const double took = time_of([&] {
      dnnl_sgemm('N', s.transposed ? 'T' : 'N', size(s.m), size(s.n), size(s.k), 1.0f, left.data,
                 size(left.stride), right.data, size(right.stride), 0.0f, result.data,
                 size(result.stride));
    });
    fmt::print("  onednn {:6.1f}", operations / took * 1e-9);
  }
#endif
  fmt::print("\n");
}

template <class T> void time_rows(std::size_t n) {
  const std::vector<T> row = random_numbers<T>(n);
  std::vector<T> work = row;
  for (const mha::Kernels<T>* kernels : mha::available_kernels<T>()) {
    fmt::print("row of {:>5} f{} {:>8}  Gelem/s:", n, sizeof(T) * 8, kernels->name);
    const auto report = [&](const char* name, const auto& step) {
      fmt::print(" {} {:.2f}", name, static_cast<double>(n) / time_of(step) * 1e-9);
    };
    // The row becomes its own exponential again and again: shifted to stay finite.
    report("exp+sum", [&] { kernels->row_exp_sum(work.data(), n, T(1), 1); });
    std::fill(work.begin(), work.end(), -std::numeric_limits<T>::infinity());
    report("masked", [&] {
      std::fill(work.begin(), work.end(), -std::numeric_limits<T>::infinity());
      kernels->row_exp_sum(work.data(), n, T(1), 1);
    });
    work = row;
    volatile T sink = 0;
    report("max", [&] { sink = kernels->row_max(work.data(), n); });
    report("sum", [&] { sink = kernels->row_sum(work.data(), n); });
    report("scale", [&] { kernels->row_scale(work.data(), n, T(1)); });
    report("divide", [&] { kernels->row_divide(work.data(), n, T(1)); });
    fmt::print("\n");
  }
}

} // namespace

int main() {
#ifdef MHA_BENCH_ONEDNN
  omp_set_num_threads(1); // as every other product here
#endif
  const Shape shapes[] = {
      {4, 4, 4, false},          {4, 4, 4, true},          {16, 16, 16, false},
      {33, 33, 16, true},        {1, 768, 768, false},     {1, 768, 768, true},
      {8, 768, 768, false},      {64, 768, 768, false},    {128, 768, 768, false},
      {256, 768, 768, false},    {256, 512, 64, true},     {256, 64, 512, false},
      {256, 512, 128, true},     {256, 128, 512, false},   {512, 512, 512, false},
      {1024, 1024, 1024, false}, {2048, 2048, 2048, false}};
  for (const Shape& s : shapes) time_products<float>(s);
  for (const Shape& s : shapes) time_products<double>(s);
  for (const std::size_t n : {16u, 33u, 512u, 4096u}) time_rows<float>(n), time_rows<double>(n);
}
