#include <mha/tensor/halves.hpp>

#include <mha/system/cpu.hpp>
#include <mha/tensor/halves_kernels.hpp>

namespace mha {

namespace {

const HalfKernels* half_kernels() {
#if defined(__x86_64__)
  if (runs_avx2()) return &avx2_halves;
#endif
  return nullptr;
}

} // namespace

bool narrow_to_halves(const float* from, std::uint16_t* to, std::size_t n) {
  const HalfKernels* set = half_kernels();
  if (set) set->narrow(from, to, n);
  return set != nullptr;
}

bool widen_halves(const std::uint16_t* from, float* to, std::size_t n) {
  const HalfKernels* set = half_kernels();
  if (set) set->widen(from, to, n);
  return set != nullptr;
}

} // namespace mha
