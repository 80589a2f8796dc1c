#include <mha/system/cpu.hpp>

#include <mha/system/error.hpp>

#include <array>
#include <cstdlib>
#include <string_view>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace mha {
namespace {

enum class Level { portable, avx2, avx512, amx };

Level highest_allowed() {
  const char* value = std::getenv("MHA_CPU");
  if (!value) return Level::amx;
  constexpr std::array<std::string_view, 4> names{"portable", "avx2", "avx512", "amx"};
  for (std::size_t i = 0; i < names.size(); ++i)
    if (names[i] == value) return static_cast<Level>(i);
  fail("MHA_CPU={}: expected portable, avx2, avx512 or amx", value);
}

bool allowed(Level level) {
  static const Level highest = highest_allowed();
  return level <= highest;
}

} // namespace

bool runs_avx2() {
  if (!allowed(Level::avx2)) return false;
#if defined(__x86_64__)
  // The kernels also use F16C. Clang 14 cannot query it, but every processor with AVX2 has it.
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

bool runs_amx() {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!allowed(Level::amx) || !runs_avx512() || !__get_cpuid_count(7, 0, &a, &b, &c, &d))
    return false;
  constexpr unsigned amx_bf16 = 1U << 22, amx_tile = 1U << 24;
  if ((d & amx_bf16) == 0 || (d & amx_tile) == 0) return false;
  // Linux grants the tile registers, 8 KiB a thread, on request.
  constexpr long request_permission = 0x1023, tile_data = 18; // ARCH_REQ_XCOMP_PERM, of asm/prctl.h
  return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
#else
  return false;
#endif
}

} // namespace mha
