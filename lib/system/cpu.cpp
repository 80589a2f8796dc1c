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

enum class Level { portable, neon, avx2, avx512, amx };

/// What MHA_CPU may be on this architecture.
struct Word {
  std::string_view name;
  Level level;
};
#if defined(__x86_64__)
constexpr std::string_view expected = "portable, avx2, avx512 or amx";
constexpr std::array<Word, 4> words{{{"portable", Level::portable},
                                     {"avx2", Level::avx2},
                                     {"avx512", Level::avx512},
                                     {"amx", Level::amx}}};
#elif defined(__aarch64__)
constexpr std::string_view expected = "portable or neon";
constexpr std::array<Word, 2> words{{{"portable", Level::portable}, {"neon", Level::neon}}};
#else
constexpr std::string_view expected = "portable";
constexpr std::array<Word, 1> words{{{"portable", Level::portable}}};
#endif

Level highest_allowed() {
  const char* value = std::getenv("MHA_CPU");
  if (!value) return words.back().level;
  for (const Word& word : words)
    if (word.name == value) return word.level;
  fail("MHA_CPU={}: expected {}", value, expected);
}

bool allowed(Level level) {
  static const Level highest = highest_allowed();
  return level <= highest;
}

} // namespace

bool runs_neon() {
#if defined(__aarch64__)
  return allowed(Level::neon);
#else
  return false;
#endif
}

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
