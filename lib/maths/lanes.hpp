#pragma once
// Two doubles that are computed side by side, which GCC and Clang put into a register on every
// machine that has them. Each lane's bits are those of a double alone.

#include <cstddef>
#include <cstdint>

namespace mha::maths {

using Lanes = double __attribute__((vector_size(16)));
using LaneBits = std::uint64_t __attribute__((vector_size(16)));

constexpr Lanes both(double x) {
  return Lanes{x, x};
}

/// Integers near x, |x| < 2⁵¹: beside so large a number there are no fractions.
struct Nearest {
  LaneBits bits; ///< the integers, modulo 2⁵¹
  Lanes value;
};
inline Nearest nearest(Lanes x) {
  const Lanes beside = x + 0x1.8p52;
  return {reinterpret_cast<LaneBits>(beside), beside - 0x1.8p52};
}

inline constexpr std::uint64_t sign_bit = std::uint64_t{1} << 63;

inline Lanes magnitude(Lanes x) {
  return reinterpret_cast<Lanes>(reinterpret_cast<LaneBits>(x) & ~sign_bit);
}
/// |x| with the sign of y.
inline Lanes with_sign(Lanes x, Lanes y) {
  return reinterpret_cast<Lanes>((reinterpret_cast<LaneBits>(x) & ~sign_bit) |
                                 (reinterpret_cast<LaneBits>(y) & sign_bit));
}

/// row := f(row), two elements at a time.
template <class T, class F> void each_pair(T* row, std::size_t n, F f) {
  const auto at = [f](T* pair) {
    const Lanes y = f(Lanes{static_cast<double>(pair[0]), static_cast<double>(pair[1])});
    pair[0] = static_cast<T>(y[0]), pair[1] = static_cast<T>(y[1]);
  };
  std::size_t i = 0;
  for (; i + 2 <= n; i += 2) at(row + i);
  if (i == n) return;
  T last[2] = {row[i], row[i]};
  at(last);
  row[i] = last[0];
}

} // namespace mha::maths
