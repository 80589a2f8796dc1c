#pragma once
// Kernels of one instruction set: a table of plain functions on raw pointers. Included by the
// units that are compiled for newer processors, so nothing here may bring inline functions of the
// standard library along: the linker could keep their copy for the whole program.

#include <cstddef>
#include <cstdint>

namespace mha {

/// The elements of a row that are summed side by side: element i goes to lane i mod sum_lanes, and
/// the lanes are added in one fixed tree. So zeros at the end of a row do not change its sum's
/// bits.
template <class T> inline constexpr std::size_t sum_lanes = 128 / sizeof(T);

/// The result of one loop over a run of weights α_0 … α_{n−1} gives, summed in double precision.
struct RowSums {
  double sum = 0; ///< Σ α
  double entropy = 0; ///< −Σ α ln α, 0 where α is 0; each term within a few 2⁻²³ (f64: 2⁻⁵²) of it
  double overlap = 0;           ///< Σ min(α, uniform)
  double first = 0, second = 0; ///< Σ α i, Σ α i²
};

/// Up to how many rows a product reads a transposed b without packing it: no other row of tiles
/// would share what is packed.
inline constexpr std::size_t few_rows = 8;

/// A number in bfloat16, which is the upper half of a float's bits.
[[maybe_unused]] static float from_bf16(std::uint16_t upper) {
  const std::uint32_t bits = static_cast<std::uint32_t>(upper) << 16;
  float number;
  __builtin_memcpy(&number, &bits, sizeof number);
  return number;
}

/// The kernels of one instruction set for one element type.
template <class T> struct Kernels {
  const char* name;
  /// The most columns of a strip.
  std::size_t strip_cols;

  /// c := a b, or c += a b, for a strip of C, any number of rows: element (i, p) of a at
  /// a[i · a_stride + p], element (p, j) of b at b[p · b_stride + j]. Nothing outside
  /// rows × cols × depth is read or written. `next`, which may be null, is a strip of as many
  /// columns and the same depth, stored together: it is fetched into the second cache meanwhile.
  void (*strip)(std::size_t rows, std::size_t cols, std::size_t depth, const T* a,
                std::size_t a_stride, const T* b, std::size_t b_stride, T* c, std::size_t c_stride,
                bool accumulate, const T* next);
  /// The same for 1 to `few_rows` rows and a transposed b, element (p, j) at
  /// b[j · b_stride + p], with any number of columns: nothing is packed, b is read once.
  void (*few_rows_transposed)(std::size_t rows, std::size_t cols, std::size_t depth, const T* a,
                              std::size_t a_stride, const T* b, std::size_t b_stride, T* c,
                              std::size_t c_stride, bool accumulate);
  /// panel[p · width + i] = source[i · stride + p] for i < rows, p < depth.
  void (*pack_transposed)(const T* source, std::size_t stride, std::size_t rows, std::size_t depth,
                          T* panel, std::size_t width);
  /// panel[p · width + j] = source[p · stride + j] for p < depth, j < cols.
  void (*pack)(const T* source, std::size_t stride, std::size_t depth, std::size_t cols, T* panel,
               std::size_t width);
  /// pack_transposed of numbers in bfloat16, by their bits; null in double.
  void (*pack_transposed_bf16)(const std::uint16_t* source, std::size_t stride, std::size_t rows,
                               std::size_t depth, T* panel, std::size_t width);

  // See kernels/rows.hpp.
  T (*row_max)(const T* row, std::size_t n);
  void (*row_scale)(T* row, std::size_t n, T factor);
  void (*row_add)(T* row, const T* other, std::size_t n);
  void (*row_subtract)(T* row, std::size_t n, T value);
  T (*row_exp_sum)(T* row, std::size_t n, T shift, T factor);
  T (*row_sum)(const T* row, std::size_t n);
  void (*row_divide)(T* row, std::size_t n, T divisor);
  RowSums (*row_sums)(const T* row, std::size_t n, T uniform);

  /// Multiply-adds of registers alone, `rounds` times some: the most that the unit can do. Returns
  /// how many; `sums`, 64 bytes, takes what keeps the compiler from leaving them out.
  std::size_t (*multiply_adds)(std::size_t rounds, T* sums);
};

extern const Kernels<float> portable_f32;
extern const Kernels<double> portable_f64;
#if defined(__x86_64__)
extern const Kernels<float> avx2_f32;
extern const Kernels<double> avx2_f64;
extern const Kernels<float> avx512_f32;
extern const Kernels<double> avx512_f64;
#elif defined(__aarch64__)
extern const Kernels<float> neon_f32;
extern const Kernels<double> neon_f64;
#endif

} // namespace mha
