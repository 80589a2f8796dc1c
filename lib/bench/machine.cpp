#include <mha/bench/machine.hpp>

#include <mha/kernels/bf16x3_kernels.hpp>
#include <mha/kernels/rows.hpp>
#include <mha/system/clock.hpp>
#include <mha/system/parallel.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <numeric>
#include <type_traits>

#include <unistd.h>

namespace mha {

namespace {

using SteadyClock = std::chrono::steady_clock;

/// Threads get many short tasks each, so that all threads end together. A task takes this long.
constexpr std::size_t tasks_per_thread = 8;
constexpr auto task_duration = std::chrono::milliseconds(2);
/// How often each rate is measured; the best counts.
constexpr std::size_t rounds = 5;

/// The size of a level of the cache by the kernel, else by the C library, which counts the third
/// one of a virtual machine several times; else `usual`.
double cache_bytes(int level, int name, double usual) {
  std::ifstream file(fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/size", level));
  double kibibytes = 0;
  if (char unit = 0; file >> kibibytes >> unit && unit == 'K') return kibibytes * 1024;
  const long bytes = ::sysconf(name);
  return bytes > 0 ? static_cast<double>(bytes) : usual;
}

template <class T> std::size_t vector_multiply_adds() {
  alignas(64) T sums[64 / sizeof(T)];
  return kernels<T>().multiply_adds(20'000, sums);
}

template <class T> std::size_t product_multiply_adds() {
  if constexpr (std::is_same_v<T, float>)
    if (const Bf16x3Kernels* units = bf16x3_kernels()) {
      alignas(64) T sums[64 / sizeof(T)];
      return units->multiply_adds(400, sums);
    }
  return vector_multiply_adds<T>();
}

template <class T> std::string unit_in_use() {
  if (std::is_same_v<T, float> && bf16x3_kernels()) return "amx, bfloat16 × 3";
  return kernels<T>().name;
}

} // namespace

const char* name_of(MemoryLevel level) {
  return level == MemoryLevel::cache_2 ? "L2" : level == MemoryLevel::cache_3 ? "L3" : "memory";
}

template <class T> Machine<T>::Machine(std::size_t threads)
    : threads_(std::min(threads, core_count())) {
  rates_.unit = unit_in_use<T>();
}

template <class T> template <class Step> double Machine<T>::rate_of(const Step& step) const {
  std::vector<double> done(threads_ * tasks_per_thread);
  const double seconds = seconds_of([&] {
    parallel_for(done.size(), threads_, [&](std::size_t i, std::size_t worker) {
      const auto end = SteadyClock::now() + task_duration;
      while (SteadyClock::now() < end) done[i] += step(worker);
    });
  });
  return std::reduce(done.begin(), done.end()) / seconds;
}

template <class T> void Machine<T>::measure_products() {
  const auto operations = [](std::size_t) {
    return 2 * static_cast<double>(product_multiply_adds<T>());
  };
  rates_.products = std::max(rates_.products, rate_of(operations));
}

template <class T> double Machine<T>::bytes_in(MemoryLevel level) const {
  const double second =
      cache_bytes(2, _SC_LEVEL2_CACHE_SIZE, 1 << 20) * static_cast<double>(threads_);
  const double third = std::max(second, cache_bytes(3, _SC_LEVEL3_CACHE_SIZE, 32 << 20));
  // Half of a cache, since other programs use the rest; for memory, more than the caches hold.
  return level == MemoryLevel::cache_2   ? second / 2
         : level == MemoryLevel::cache_3 ? third / 2
                                         : 4 * third;
}

template <class T> MemoryLevel Machine<T>::level_of(double bytes) const {
  return bytes <= bytes_in(MemoryLevel::cache_2)   ? MemoryLevel::cache_2
         : bytes <= bytes_in(MemoryLevel::cache_3) ? MemoryLevel::cache_3
                                                   : MemoryLevel::memory;
}

template <class T> void Machine<T>::measure(MemoryLevel level) {
  const std::size_t count = static_cast<std::size_t>(bytes_in(level)) / sizeof(T) / threads_;
  const std::size_t piece =
      std::min<std::size_t>(count, 1 << 14); // numbers between two looks at the clock
  std::vector<std::vector<T>> numbers(threads_), copies(threads_);
  std::vector<std::size_t> at(threads_);
  parallel_for(threads_, threads_, [&](std::size_t worker) { // each thread's memory is near it
    numbers[worker].assign(count, T(1)), copies[worker].assign(count / 2, T(0));
  });
  const auto next = [&](std::size_t worker, std::size_t end) {
    at[worker] = at[worker] + 2 * piece <= end ? at[worker] + piece : 0;
    return at[worker];
  };
  Bandwidth& best = rates_.bytes[static_cast<std::size_t>(level)];
  std::vector<T> largest(threads_);
  for (std::size_t round = 0; round < rounds; ++round) {
    best.read = std::max(best.read, rate_of([&](std::size_t worker) {
                           const T* row = numbers[worker].data() + next(worker, count);
                           largest[worker] = std::max(largest[worker], row_max(row, piece));
                           return static_cast<double>(piece * sizeof(T));
                         }));
    best.copy = std::max(best.copy, rate_of([&](std::size_t worker) {
                           const std::size_t place = next(worker, count / 2);
                           std::memcpy(copies[worker].data() + place,
                                       numbers[worker].data() + place, piece * sizeof(T));
                           return static_cast<double>(piece * sizeof(T));
                         }));
  }
}

template <class T> void Machine<T>::measure_rest(const std::vector<double>& sizes) {
  constexpr std::size_t row = 1024;
  std::vector<std::vector<T>> rows(threads_, std::vector<T>(row));
  for (std::size_t round = 0; round < rounds; ++round) {
    rates_.vectors = std::max(rates_.vectors, rate_of([](std::size_t) {
                                return 2 * static_cast<double>(vector_multiply_adds<T>());
                              }));
    rates_.exponentials = std::max(rates_.exponentials, rate_of([&](std::size_t worker) {
                                     row_exp_sum(rows[worker].data(), row,
                                                 T(1)); // exp(x − 1) again and again ends at 1
                                     return static_cast<double>(row);
                                   }));
  }
  for (const MemoryLevel level : {MemoryLevel::cache_2, MemoryLevel::cache_3, MemoryLevel::memory})
    if (std::ranges::any_of(sizes,
                            [&](double size) { return size > 0 && level_of(size) == level; }))
      measure(level);
}

template class Machine<float>;
template class Machine<double>;

} // namespace mha
