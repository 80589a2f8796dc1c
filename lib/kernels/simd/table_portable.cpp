// The kernels for any machine. The same sums as the other sets', in the same order; but products
// are rounded before they are added: without the instruction, a fused multiply-add is a hundred
// times slower.

#include <mha/kernels/simd/table.hpp>
#include <mha/maths/functions.hpp>

#include <cstring>
#include <limits>

namespace mha {
namespace {

/// 16 bytes of numbers, which GCC and Clang put into a register on every machine that has them.
template <class T> struct Vector;
template <> struct Vector<float> { using Reg = float __attribute__((vector_size(16))); };
template <> struct Vector<double> { using Reg = double __attribute__((vector_size(16))); };

constexpr std::size_t tile_rows = 4;
template <class T> constexpr std::size_t tile_cols = 32 / sizeof(T); // two registers

/// A full tile, its sums in registers.
template <class T> void full_tile(std::size_t depth, const T* a, std::size_t a_stride, const T* b,
                                  std::size_t b_stride, T* c, std::size_t c_stride,
                                  bool accumulate) {
  using Reg = typename Vector<T>::Reg;
  constexpr std::size_t width = sizeof(Reg) / sizeof(T);
  Reg left[tile_rows] = {}, right[tile_rows] = {};
  if (accumulate)
    for (std::size_t i = 0; i < tile_rows; ++i) {
      std::memcpy(&left[i], c + i * c_stride, sizeof(Reg));
      std::memcpy(&right[i], c + i * c_stride + width, sizeof(Reg));
    }
  for (std::size_t p = 0; p < depth; ++p, ++a, b += b_stride) {
    Reg b_left, b_right;
    std::memcpy(&b_left, b, sizeof(Reg));
    std::memcpy(&b_right, b + width, sizeof(Reg));
#pragma GCC unroll 4
    for (std::size_t i = 0; i < tile_rows; ++i) {
      left[i] += a[i * a_stride] * b_left;
      right[i] += a[i * a_stride] * b_right;
    }
  }
  for (std::size_t i = 0; i < tile_rows; ++i) {
    std::memcpy(c + i * c_stride, &left[i], sizeof(Reg));
    std::memcpy(c + i * c_stride + width, &right[i], sizeof(Reg));
  }
}

template <class T> void strip(std::size_t rows, std::size_t cols, std::size_t depth, const T* a,
                              std::size_t a_stride, const T* b, std::size_t b_stride, T* c,
                              std::size_t c_stride, bool accumulate, const T*) {
  if (cols == tile_cols<T>)
    for (; rows >= tile_rows;
         rows -= tile_rows, a += tile_rows * a_stride, c += tile_rows * c_stride)
      full_tile(depth, a, a_stride, b, b_stride, c, c_stride, accumulate);
  for (std::size_t i = 0; i < rows; ++i) {
    T sum[tile_cols<T>] = {};
    if (accumulate)
      for (std::size_t j = 0; j < cols; ++j) sum[j] = c[i * c_stride + j];
    for (std::size_t p = 0; p < depth; ++p)
      for (std::size_t j = 0; j < cols; ++j) sum[j] += a[i * a_stride + p] * b[p * b_stride + j];
    for (std::size_t j = 0; j < cols; ++j) c[i * c_stride + j] = sum[j];
  }
}

template <class T> void few_rows_transposed(std::size_t rows, std::size_t cols, std::size_t depth,
                                            const T* a, std::size_t a_stride, const T* b,
                                            std::size_t b_stride, T* c, std::size_t c_stride,
                                            bool accumulate) {
  for (std::size_t j = 0; j < cols; ++j)
    for (std::size_t i = 0; i < rows; ++i) {
      T sum = accumulate ? c[i * c_stride + j] : 0;
      for (std::size_t p = 0; p < depth; ++p) sum += a[i * a_stride + p] * b[j * b_stride + p];
      c[i * c_stride + j] = sum;
    }
}

template <class T> void pack_transposed(const T* source, std::size_t stride, std::size_t rows,
                                        std::size_t depth, T* panel, std::size_t width) {
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t p = 0; p < depth; ++p) panel[p * width + i] = source[i * stride + p];
}

template <class T> void pack(const T* source, std::size_t stride, std::size_t depth,
                             std::size_t cols, T* panel, std::size_t width) {
  for (std::size_t p = 0; p < depth; ++p)
    for (std::size_t j = 0; j < cols; ++j) panel[p * width + j] = source[p * stride + j];
}

void pack_transposed_bf16(const std::uint16_t* source, std::size_t stride, std::size_t rows,
                          std::size_t depth, float* panel, std::size_t width) {
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t p = 0; p < depth; ++p)
      panel[p * width + i] = from_bf16(source[i * stride + p]);
}

template <class T> T row_max(const T* row, std::size_t n) {
  T largest = -std::numeric_limits<T>::infinity();
  bool has_nan = false;
  for (std::size_t i = 0; i < n; ++i) {
    largest = row[i] > largest ? row[i] : largest;
    has_nan |= row[i] != row[i]; // NOLINT(misc-redundant-expression): it is NaN
  }
  return has_nan ? std::numeric_limits<T>::quiet_NaN() : largest;
}

template <class T> void row_scale(T* row, std::size_t n, T factor) {
  for (std::size_t i = 0; i < n; ++i) row[i] *= factor;
}

template <class T> void row_add(T* row, const T* other, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) row[i] += other[i];
}

template <class T> void row_subtract(T* row, std::size_t n, T value) {
  for (std::size_t i = 0; i < n; ++i) row[i] -= value;
}

template <class T> void row_divide(T* row, std::size_t n, T divisor) {
  for (std::size_t i = 0; i < n; ++i) row[i] /= divisor;
}

template <class T> T row_sum(const T* row, std::size_t n) {
  constexpr std::size_t lanes = sum_lanes<T>;
  T lane[lanes] = {};
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes)
    for (std::size_t l = 0; l < lanes; ++l) lane[l] += row[i + l];
  for (std::size_t l = 0; i < n; ++i, ++l) lane[l] += row[i];
  for (std::size_t half = lanes / 2; half > 0; half /= 2)
    for (std::size_t l = 0; l < half; ++l) lane[l] += lane[l + half];
  return lane[0];
}

template <class T> T row_exp_sum(T* row, std::size_t n, T shift, T factor) {
  for (std::size_t i = 0; i < n; ++i) row[i] = row[i] * factor - shift;
  maths::exp_row(row, n);
  return row_sum(row, n);
}

template <class T> RowSums row_sums(const T* row, std::size_t n, T uniform) {
  RowSums sums;
  for (std::size_t i = 0; i < n; ++i) {
    const double weight = row[i], place = static_cast<double>(i);
    sums.sum += weight;
    sums.entropy -= weight <= 0 ? 0 : weight * static_cast<double>(maths::log(row[i]));
    sums.overlap += row[i] < uniform ? row[i] : uniform;
    sums.first += weight * place;
    sums.second += weight * place * place;
  }
  return sums;
}

template <class T> std::size_t multiply_adds(std::size_t rounds, T* sums) {
  using Reg = typename Vector<T>::Reg;
  constexpr std::size_t chains = 12;
  Reg sum[chains] = {};
  for (std::size_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (std::size_t i = 0; i < chains; ++i) sum[i] = sum[i] * T(0.5) + T(1);
  }
  for (std::size_t i = 1; i < chains; ++i) sum[0] += sum[i];
  std::memcpy(sums, &sum[0], sizeof(Reg));
  return rounds * chains * sizeof(Reg) / sizeof(T);
}

template <class T> constexpr Kernels<T> table(decltype(Kernels<T>::pack_transposed_bf16) packs) {
  return {"portable",         tile_cols<T>,  strip<T>,        few_rows_transposed<T>,
          pack_transposed<T>, pack<T>,       packs,           row_max<T>,
          row_scale<T>,       row_add<T>,    row_subtract<T>, row_exp_sum<T>,
          row_sum<T>,         row_divide<T>, row_sums<T>,     multiply_adds<T>};
}

} // namespace

constexpr Kernels<float> portable_f32 = table<float>(pack_transposed_bf16);
constexpr Kernels<double> portable_f64 = table<double>(nullptr);

} // namespace mha
