#include "kernels/dispatch.hpp"

#include <array>
#include <type_traits>

namespace mha {
namespace {

bool runs_avx2() {
#if defined(__x86_64__)
  // The unit may use F16C too, which Clang 14 cannot ask for: every processor with AVX2 has it.
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  return false;
#endif
}

bool runs_avx512() {
#if defined(__x86_64__)
  return runs_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
#else
  return false;
#endif
}

template <class T> struct Available {
  std::array<const Kernels<T>*, 3> tables{};
  std::size_t count = 0;

  Available() {
    if constexpr (std::is_same_v<T, float>)
      tables[count++] = &portable_f32;
    else
      tables[count++] = &portable_f64;
#if defined(__x86_64__)
    if constexpr (std::is_same_v<T, float>) {
      if (runs_avx2()) tables[count++] = &avx2_f32;
      if (runs_avx512()) tables[count++] = &avx512_f32;
    } else {
      if (runs_avx2()) tables[count++] = &avx2_f64;
      if (runs_avx512()) tables[count++] = &avx512_f64;
    }
#endif
  }
};

} // namespace

template <class T> std::span<const Kernels<T>* const> available_kernels() {
  static const Available<T> available;
  return {available.tables.data(), available.count};
}

template <class T> const Kernels<T>& kernels() {
  return *available_kernels<T>().back();
}

template std::span<const Kernels<float>* const> available_kernels<float>();
template std::span<const Kernels<double>* const> available_kernels<double>();
template const Kernels<float>& kernels<float>();
template const Kernels<double>& kernels<double>();

} // namespace mha
