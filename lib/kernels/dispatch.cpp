#include "kernels/dispatch.hpp"

#include "error.hpp"
#include "kernels/split_kernels.hpp"

#include <array>
#include <cstdlib>
#include <string_view>
#include <type_traits>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace mha {
namespace {

enum class Level { portable, avx2, avx512, amx };

Level highest_allowed() {
  const char* word = std::getenv("MHA_CPU");
  if (!word) return Level::amx;
  constexpr std::array<std::string_view, 4> words{"portable", "avx2", "avx512", "amx"};
  for (std::size_t i = 0; i < words.size(); ++i)
    if (words[i] == word) return static_cast<Level>(i);
  fail("MHA_CPU={}: expected portable, avx2, avx512 or amx", word);
}

bool allowed(Level level) {
  static const Level highest = highest_allowed();
  return level <= highest;
}

bool runs_avx2() {
  if (!allowed(Level::avx2)) return false;
#if defined(__x86_64__)
  // The unit may use F16C too, which Clang 14 cannot ask for: every processor with AVX2 has it.
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  return false;
#endif
}

bool runs_avx512() {
  if (!allowed(Level::avx512)) return false;
#if defined(__x86_64__)
  return runs_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
#else
  return false;
#endif
}

#if defined(__x86_64__)
bool runs_amx() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!allowed(Level::amx) || !runs_avx512() || !__get_cpuid_count(7, 0, &a, &b, &c, &d))
    return false;
  constexpr unsigned amx_bf16 = 1U << 22, amx_tile = 1U << 24;
  if ((d & amx_bf16) == 0 || (d & amx_tile) == 0) return false;
  // Linux lends the tile registers, 8 KiB a thread, to who asks for them.
  constexpr long request_permission = 0x1023, tile_data = 18; // ARCH_REQ_XCOMP_PERM, of asm/prctl.h
  return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}
#endif

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

const SplitKernels* split_kernels() {
#if defined(__x86_64__)
  static const SplitKernels* const found = runs_amx() ? &amx_split : nullptr;
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
