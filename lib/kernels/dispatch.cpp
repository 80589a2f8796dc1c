#include <mha/kernels/dispatch.hpp>

#include <mha/kernels/bf16x3_kernels.hpp>
#include <mha/system/cpu.hpp>

#include <array>
#include <type_traits>

namespace mha {
namespace {

const Bf16x3Kernels* kernels_for_tests = nullptr;

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
#elif defined(__aarch64__)
    if constexpr (std::is_same_v<T, float>) {
      if (runs_neon()) tables[count++] = &neon_f32;
    } else {
      if (runs_neon()) tables[count++] = &neon_f64;
    }
#endif
  }
};

} // namespace

template <class T> std::span<const Kernels<T>* const> available_kernels() {
  static const Available<T> available;
  return {available.tables.data(), available.count};
}

void set_bf16x3_kernels(const Bf16x3Kernels* kernels) {
  kernels_for_tests = kernels;
}

const Bf16x3Kernels* bf16x3_kernels() {
  if (kernels_for_tests) return kernels_for_tests;
#if defined(__x86_64__)
  static const Bf16x3Kernels* const found = runs_amx() ? &amx_bf16x3 : nullptr;
  return found;
#else
  return nullptr;
#endif
}

template <class T> const Kernels<T>& kernels() {
  return *available_kernels<T>().back();
}

template std::span<const Kernels<float>* const> available_kernels<float>();
template std::span<const Kernels<double>* const> available_kernels<double>();
template const Kernels<float>& kernels<float>();
template const Kernels<double>& kernels<double>();

} // namespace mha
