#include "support/emulated_amx.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <vector>

namespace {

using mha::cell_parts;
using mha::cell_side;
using mha::cell_size;

constexpr std::size_t lanes = 16, half_size = cell_side * cell_side / 2;
constexpr float least_normal = std::numeric_limits<float>::min();

/// Denormal results become zeros, and denormal inputs count as zeros. A sum so small that it would
/// round up to the least normal number counts as denormal; none of the tests has one.
float flushed(float x) {
  return std::fabs(x) < least_normal ? std::copysign(0.0F, x) : x;
}

/// A tile of bfloat16 pairs as float32.
struct Tile {
  std::array<std::array<float, lanes>, lanes> even, odd;
  double least = 0; ///< lower bound of the magnitudes but 0

  explicit Tile(const std::uint16_t* pairs) {
    std::uint16_t least_bits = 0xffff; // less one, so that 0 is the largest
    for (std::size_t line = 0; line < lanes; ++line)
      for (std::size_t i = 0; i < lanes; ++i) {
        const std::uint16_t* const pair = pairs + line * cell_side + 2 * i;
        even[line][i] = from_bfloat16(pair[0]), odd[line][i] = from_bfloat16(pair[1]);
        for (const std::uint16_t bits : {pair[0], pair[1]})
          least_bits = std::min(least_bits, static_cast<std::uint16_t>((bits & 0x7fff) - 1));
      }
    least = from_bfloat16(static_cast<std::uint16_t>(std::min<int>(least_bits, 0x7f00)));
  }

private:
  static float from_bfloat16(std::uint16_t bits) {
    const std::uint32_t kept = bits & ((bits & 0x7f80) == 0 ? 0x8000U : 0xffffU);
    return std::bit_cast<float>(kept << 16);
  }
};

/// c[…] += a · b[…]: a fused multiply-add that flushes. Where no product can have a bit below 2⁻¹²⁶
/// products of bfloat16 are exact and sums never denormal: then plain operations do the same.
template <bool plain>
void add_products(float a, const std::array<float, lanes>& b, std::array<float, lanes>& c) {
  for (std::size_t n = 0; n < lanes; ++n)
    if constexpr (plain)
      c[n] += a * b[n];
    else
      c[n] = flushed(std::fma(a, b[n], c[n]));
}

template <bool plain> void multiply(const Tile& a, std::size_t lines, const Tile& b, float* c) {
  for (std::size_t m = 0; m < lines; ++m) {
    std::array<float, lanes> even{}, odd{};
    for (std::size_t k = 0; k < lanes; ++k) {
      add_products<plain>(a.even[m][k], b.even[k], even);
      add_products<plain>(a.odd[m][k], b.odd[k], odd);
    }
    for (std::size_t n = 0; n < lanes; ++n) {
      float& sum = c[m * lanes + n];
      sum = flushed(flushed(sum) + flushed(even[n] + odd[n]));
    }
  }
}

/// Only as many lines of a as somebody wants.
void multiply(const Tile& a, std::size_t lines, const Tile& b, float* c) {
  if (a.least * b.least >= 0x1p-108)
    multiply<true>(a, lines, b, c);
  else
    multiply<false>(a, lines, b, c);
}

std::uint16_t upper_half(float x) {
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(x) >> 16);
}

/// Nearest, ties away from zero.
std::uint16_t nearest_bfloat16(float x) {
  return static_cast<std::uint16_t>((std::bit_cast<std::uint32_t>(x) + 0x8000U) >> 16);
}

/// A number as its nearest bfloat16, that of the rest, and all that is left.
std::array<std::uint16_t, cell_parts> parts_of(float x) {
  std::array<std::uint16_t, cell_parts> parts{};
  for (std::size_t p = 0; p + 1 < cell_parts; ++p) {
    parts[p] = nearest_bfloat16(x);
    x -= std::bit_cast<float>(static_cast<std::uint32_t>(parts[p]) << 16);
  }
  parts.back() = upper_half(x);
  return parts;
}

/// Whether the magnitudes of a line of numbers are such that all parts of products are there.
bool splits(float largest_finite, bool finite, float least) {
  return finite && largest_finite < mha::bf16x3_most &&
         (largest_finite >= least || largest_finite == 0);
}

/// Numbers (line, k) of `lines` lines, `depth` deep, as cells; zeros for those missing, up to
/// `filled` lines. `place` gives where within a half the pair of a line and k goes.
template <class Number, class Place> bool pack(const Number& number, std::size_t lines,
                                               std::size_t filled, std::size_t depth, float least,
                                               const Place& place, std::uint16_t* cells) {
  bool fits = true;
  for (std::size_t i = 0; i < filled; ++i) {
    float largest = 0;
    bool finite = true;
    for (std::size_t k = 0; k < (depth + cell_side - 1) / cell_side * cell_side; ++k) {
      const float x = i < lines && k < depth ? number(i, k) : 0;
      finite = finite && std::isfinite(x);
      largest = std::max(largest, std::fabs(x));
      const auto parts = parts_of(x);
      std::uint16_t* const cell = cells + k / cell_side * cell_size;
      for (std::size_t p = 0; p < cell_parts; ++p)
        cell[(2 * p + i / lanes) * half_size + place(i % lanes, k % lanes) +
             k % cell_side / lanes] = parts[p];
    }
    fits = splits(largest, finite, least) && fits;
  }
  return fits;
}

bool pack_left(const float* a, std::size_t stride, std::size_t rows, std::size_t depth,
               std::uint16_t* cells) {
  return pack([&](std::size_t i, std::size_t k) { return a[i * stride + k]; }, rows,
              rows > lanes ? cell_side : lanes, depth, mha::bf16x3_least_left,
              [](std::size_t i, std::size_t k) { return i * cell_side + 2 * k; }, cells);
}

/// Where a column's pair of rows k and k + 16 goes.
std::size_t right_place(std::size_t column, std::size_t k) {
  return k * cell_side + 2 * column;
}

bool pack_right(const float* b, std::size_t stride, std::size_t depth, std::size_t cols,
                std::uint16_t* cells) {
  return pack([&](std::size_t j, std::size_t k) { return b[k * stride + j]; }, cols, cell_side,
              depth, mha::bf16x3_least_right, right_place, cells);
}

bool pack_right_transposed(const float* b, std::size_t stride, std::size_t depth, std::size_t cols,
                           std::uint16_t* cells) {
  return pack([&](std::size_t j, std::size_t k) { return b[j * stride + k]; }, cols, cell_side,
              depth, mha::bf16x3_least_right, right_place, cells);
}

thread_local bool has_tiles = false; // multiplying without is an error of the processor, too

void begin() {
  has_tiles = true;
}

void end() {
  has_tiles = false;
}

/// [half of the rows][half of the columns], 16 × 16 each.
using Sums = std::array<std::array<std::array<float, lanes * lanes>, 2>, 2>;

float& element(Sums& sums, std::size_t i, std::size_t j) {
  return sums[i / lanes][j / lanes][i % lanes * lanes + j % lanes];
}

/// Six of the nine products of parts, in the order of the tile registers' loads. Halves of the left
/// cell without rows are not read: nobody wrote them.
void multiply_cells(const std::uint16_t* left, const std::uint16_t* right, std::size_t right_parts,
                    std::size_t rows, Sums& sums) {
  constexpr std::array<std::array<std::size_t, 2>, 6> order{
      {{2, 0}, {1, 0}, {1, 1}, {0, 1}, {0, 2}, {0, 0}}};
  std::vector<Tile> rights; // [part][half]
  rights.reserve(2 * cell_parts);
  for (std::size_t i = 0; i < 2 * cell_parts; ++i) rights.emplace_back(right + i * half_size);
  for (std::size_t half = 0; half * lanes < rows; ++half)
    for (const auto& [p, q] : order) {
      if (q >= right_parts) continue;
      const Tile tile(left + (2 * p + half) * half_size);
      const std::size_t lines = std::min(lanes, rows - half * lanes);
      for (std::size_t j = 0; j < 2; ++j)
        multiply(tile, lines, rights[2 * q + j], sums[half][j].data());
    }
}

void multiply(const std::uint16_t* left, const std::uint16_t* right, std::size_t cells,
              std::size_t right_parts, std::size_t rows, std::size_t cols, float* c,
              std::size_t c_stride, bool accumulate) {
  if (!has_tiles) {
    std::fputs("tiles are multiplied by a thread that has not asked for them\n", stderr);
    std::abort();
  }
  Sums sums{};
  if (accumulate)
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t j = 0; j < cols; ++j) element(sums, i, j) = c[i * c_stride + j];
  for (std::size_t cell = 0; cell < cells; ++cell)
    multiply_cells(left + cell * cell_size, right + cell * cell_size, right_parts, rows, sums);
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < cols; ++j) c[i * c_stride + j] = element(sums, i, j);
}

/// Six products of empty tiles a round: what is measured with them is the emulation.
std::size_t multiply_adds(std::size_t rounds, float* sums) {
  const std::vector<std::uint16_t> zeros(cell_size);
  Sums all{};
  for (std::size_t round = 0; round < rounds; ++round)
    multiply_cells(zeros.data(), zeros.data(), cell_parts, cell_side, all);
  std::copy_n(all[0][0].data(), lanes, sums);
  return rounds * cell_side * cell_side * cell_side;
}

} // namespace

const mha::Bf16x3Kernels emulated_amx{pack_left, pack_right, pack_right_transposed, begin,
                                      end,       multiply,   multiply_adds};

void multiply_tiles(const std::uint16_t* a, const std::uint16_t* b, float* c) {
  multiply(Tile(a), lanes, Tile(b), c);
}
