#include <mha/kernels/routine.hpp>

#include <mha/kernels/bf16x3.hpp>

namespace mha {
namespace {

std::optional<Routine> one_for_all; // for tests

} // namespace

void set_routine(std::optional<Routine> routine) {
  one_for_all = routine;
}

template <>
Routine routine_for<float>(std::size_t rows, std::size_t cols, std::size_t depth, bool may_split) {
  if (one_for_all) return *one_for_all;
  return may_split && bf16x3_pays(rows, cols, depth) ? Routine::bf16x3 : Routine::fma;
}

template <> Routine routine_for<double>(std::size_t, std::size_t, std::size_t, bool) {
  return Routine::fma;
}

} // namespace mha
