#include "kernels/halves.hpp"

#include "kernels/dispatch.hpp"

namespace mha {

namespace {

const HalfKernels* half_kernels() {
#if defined(__x86_64__)
  if (available_kernels<float>().size() > 1) return &avx2_halves; // the portable ones are the first
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
