#include "support/emulated_amx.hpp"

#include <catch2/catch.hpp>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <vector>

// The emulation against Intel's description, against the kernels' packing, which needs AVX-512
// alone, and, where there is AMX, against the kernels themselves.

using mha::Bf16x3Kernels;

namespace {

constexpr std::size_t lanes = 16, pairs = 512; // numbers of a tile of bfloat16
using Bits = std::vector<std::uint16_t>;

std::uint16_t bfloat16(float x) {
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(x) >> 16);
}

/// One element of a product of tiles, c + Σ a[k] b[k], where `terms` are the first even products.
float element(float c, const std::vector<std::array<float, 2>>& even,
              const std::vector<std::array<float, 2>>& odd) {
  Bits a(pairs), b(pairs);
  const std::size_t m = 3, n = 5;
  const auto put = [&](const std::vector<std::array<float, 2>>& terms, std::size_t parity) {
    for (std::size_t k = 0; k < terms.size(); ++k) {
      a[m * 2 * lanes + 2 * k + parity] = bfloat16(terms[k][0]);
      b[k * 2 * lanes + 2 * n + parity] = bfloat16(terms[k][1]);
    }
  };
  put(even, 0), put(odd, 1);
  std::vector<float> sums(lanes * lanes);
  sums[m * lanes + n] = c;
  multiply_tiles(a.data(), b.data(), sums.data());
  return sums[m * lanes + n];
}

/// The packing kernels of the processor's, where they run: AVX-512 is enough.
const Bf16x3Kernels* packing_of_the_processor() {
#if defined(__x86_64__)
  if (mha::available_kernels<float>().back() == &mha::avx512_f32) return &mha::amx_bf16x3;
#endif
  WARN("skipped: this machine has no AVX-512, or MHA_CPU forbids it");
  return nullptr;
}

/// Numbers of a line, now and then none or of extreme size.
struct Lines {
  std::vector<float> values;
  std::size_t rows, cols;
};

Lines lines(std::mt19937& rng, std::size_t rows, std::size_t cols, bool extreme) {
  std::normal_distribution<float> normal;
  std::uniform_int_distribution<int> exponent(-140, 127), kind(0, 30);
  Lines all{std::vector<float>(rows * cols), rows, cols};
  for (float& value : all.values) {
    value = normal(rng);
    if (!extreme) continue;
    const int drawn = kind(rng);
    if (drawn < 8) value = std::ldexp(value, exponent(rng));
    if (drawn == 8) value = 0;
    if (drawn == 9) value = -0.0F;
    if (drawn == 10 && rng() % 8 == 0) value = std::numeric_limits<float>::infinity();
    if (drawn == 11 && rng() % 8 == 0) value = std::numeric_limits<float>::quiet_NaN();
  }
  if (extreme && rng() % 2 == 0) // all of them at the limits
    for (float& value : all.values) value = std::ldexp(1 + std::fabs(value), rng() % 2 ? -60 : 48);
  return all;
}

std::size_t cells_in(std::size_t depth) {
  return (depth + mha::cell_side - 1) / mha::cell_side;
}

/// What both packed must be the same; where they do not split, nobody reads the cells.
void require_same_cells(const Bits& found, bool found_fits, const Bits& expected,
                        bool expected_fits) {
  CHECK(found_fits == expected_fits);
  if (found_fits && expected_fits) CHECK(found == expected);
}

/// Packs the same numbers by both, and multiplies what both packed.
struct Packed {
  Bits left, right, turned;
  std::array<bool, 3> fits{};

  Packed(const Bf16x3Kernels& set, const Lines& a, const Lines& b, const Lines& b_turned)
      : left(cells_in(a.cols) * mha::cell_size, 7), right(left), turned(left) {
    fits = {set.pack_left(a.values.data(), a.cols, a.rows, a.cols, left.data()),
            set.pack_right(b.values.data(), b.cols, b.rows, b.cols, right.data()),
            set.pack_right_transposed(b_turned.values.data(), b_turned.cols, b_turned.cols,
                                      b_turned.rows, turned.data())};
  }
};

Lines turned(const Lines& b) {
  Lines result{std::vector<float>(b.values.size()), b.cols, b.rows};
  for (std::size_t i = 0; i < b.rows; ++i)
    for (std::size_t j = 0; j < b.cols; ++j)
      result.values[j * b.rows + i] = b.values[i * b.cols + j];
  return result;
}

std::vector<float> product(const Bf16x3Kernels& set, const Packed& cells, std::size_t depth,
                           std::size_t rows, std::size_t cols, bool accumulate,
                           std::size_t right_parts = mha::cell_parts) {
  std::vector<float> c(33 * 40, 0.375F); // a frame that must stay
  set.begin();
  set.multiply(cells.left.data(), cells.right.data(), cells_in(depth), right_parts, rows, cols,
               c.data(), 40, accumulate);
  set.end();
  return c;
}

} // namespace

TEST_CASE("emulated AMX: even and odd products are added one after the other, then together") {
  const float large = 0x1p24F; // adding 1 to it changes nothing, adding 2 does
  CHECK(element(0, {{large, 1}, {1, 1}, {1, 1}}, {}) == large);
  CHECK(element(0, {{1, 1}, {1, 1}, {large, 1}}, {}) == large + 2);
  CHECK(element(0, {{large, 1}}, {{1, 1}, {1, 1}}) == large + 2);
  CHECK(element(large, {{1, 1}}, {{1, 1}}) == large + 2);
  CHECK(element(large, {{1, 1}}, {}) == large);
  CHECK(element(0, {{large, 1}, {3, 1}}, {}) == large + 4); // ties to even
}

TEST_CASE("emulated AMX: denormal numbers are zeros, those read and those made") {
  const float tiny = 0x1p-64F, denormal = 0x1p-130F;
  CHECK(element(0, {{denormal, 0x1p20F}}, {}) == 0);
  CHECK(element(0, {{tiny, tiny}}, {}) == 0);
  CHECK(element(0, {{tiny, tiny}, {0x1p-120F, 1}}, {}) == 0x1p-120F);
  CHECK(element(0, {{0x1p-120F, 1}, {tiny, tiny}}, {}) == 0x1p-120F + 0x1p-128F); // one rounding
  CHECK(element(denormal, {{1, 0x1p-126F}}, {}) == 0x1p-126F);
  CHECK(element(0, {{1.5F, 0x1p-126F}}, {{-1, 0x1p-126F}}) == 0); // 2⁻¹²⁷ is left
  CHECK(std::signbit(element(0, {{1, -1.5F * 0x1p-126F}}, {{1, 0x1p-126F}})) == false);
}

TEST_CASE("emulated AMX: plain and fused operations give the same bits") {
  std::mt19937 rng(5);
  std::uniform_int_distribution<int> exponent(-6, 6);
  std::normal_distribution<float> normal;
  Bits a(pairs), b(pairs);
  for (int run = 0; run < 50; ++run) {
    for (std::uint16_t& x : a) x = bfloat16(std::ldexp(normal(rng), exponent(rng)));
    for (std::uint16_t& x : b) x = bfloat16(std::ldexp(normal(rng), exponent(rng)));
    std::vector<float> found(lanes * lanes), expected(lanes * lanes);
    multiply_tiles(a.data(), b.data(), found.data());
    const auto at = [](const Bits& bits, std::size_t i) {
      return std::bit_cast<float>(static_cast<std::uint32_t>(bits[i]) << 16);
    };
    for (std::size_t m = 0; m < lanes; ++m)
      for (std::size_t n = 0; n < lanes; ++n) {
        std::array<float, 2> sums{};
        for (std::size_t k = 0; k < 2 * lanes; ++k)
          sums[k % 2] = std::fma(at(a, m * 32 + k), at(b, k / 2 * 32 + 2 * n + k % 2), sums[k % 2]);
        expected[m * lanes + n] = sums[0] + sums[1];
      }
    REQUIRE(found == expected);
  }
}

TEST_CASE("emulated AMX: numbers are packed to the same bits as by AVX-512") {
  const Bf16x3Kernels* const processors = packing_of_the_processor();
  if (!processors) return;
  std::mt19937 rng(6);
  for (int run = 0; run < 400; ++run) {
    const std::size_t rows = 1 + rng() % 32, cols = 1 + rng() % 32, depth = 1 + rng() % 130;
    const Lines a = lines(rng, rows, depth, run % 4 != 0);
    const Lines b = lines(rng, depth, cols, run % 4 != 0);
    CAPTURE(run, rows, cols, depth);
    const Packed found(emulated_amx, a, b, turned(b)), expected(*processors, a, b, turned(b));
    require_same_cells(found.left, found.fits[0], expected.left, expected.fits[0]);
    require_same_cells(found.right, found.fits[1], expected.right, expected.fits[1]);
    require_same_cells(found.turned, found.fits[2], expected.turned, expected.fits[2]);
    require_same_cells(found.right, found.fits[1], found.turned, found.fits[2]);
  }
}

TEST_CASE("emulated AMX: products have the bits of the processor's") {
  const Bf16x3Kernels* const processors = mha::bf16x3_kernels();
  if (!processors) {
    WARN("skipped: this machine has no AMX, or MHA_CPU forbids it");
    return;
  }
  std::mt19937 rng(7);
  for (int run = 0; run < 1000; ++run) {
    const std::size_t rows = 1 + rng() % 32, cols = 1 + rng() % 32, depth = 1 + rng() % 200;
    const Lines a = lines(rng, rows, depth, run % 3 != 0);
    const Lines b = lines(rng, depth, cols, run % 3 != 0);
    CAPTURE(run, rows, cols, depth);
    const Packed cells(emulated_amx, a, b, turned(b));
    if (!cells.fits[0] || !cells.fits[1]) continue;
    for (const bool accumulate : {false, true})
      CHECK(product(emulated_amx, cells, depth, rows, cols, accumulate) ==
            product(*processors, cells, depth, rows, cols, accumulate));
  }
}

TEST_CASE("emulated AMX: right parts that are zeros may be left out") {
  std::vector<const Bf16x3Kernels*> sets{&emulated_amx};
  if (const Bf16x3Kernels* processors = mha::bf16x3_kernels()) sets.push_back(processors);
  std::mt19937 rng(9);
  for (int run = 0; run < 200; ++run) {
    const std::size_t rows = 1 + rng() % 32, cols = 1 + rng() % 32, depth = 1 + rng() % 130;
    const std::size_t parts = run % 2 == 0 ? 1 : 2;
    const Lines a = lines(rng, rows, depth, run % 3 != 0);
    Lines b = lines(rng, depth, cols, run % 3 != 0);
    for (float& x : b.values) // 8 bits, or 16
      x = std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & (parts == 1 ? ~0xffffU : ~0xffU));
    CAPTURE(run, parts, rows, cols, depth);
    const Packed cells(emulated_amx, a, b, turned(b));
    if (!cells.fits[0] || !cells.fits[1]) continue;
    for (const Bf16x3Kernels* set : sets) {
      const std::vector<float> all = product(*set, cells, depth, rows, cols, run % 5 == 0);
      CHECK(product(*set, cells, depth, rows, cols, run % 5 == 0, parts) == all);
      CHECK(product(*set, cells, depth, rows, cols, run % 5 == 0, 2) == all);
      if (parts == 2 && depth > 8 && run % 3 == 0)
        CHECK(product(*set, cells, depth, rows, cols, run % 5 == 0, 1) != all);
    }
  }
}

TEST_CASE("emulated AMX: nothing but the product is written") {
  std::mt19937 rng(8);
  const std::size_t rows = 19, cols = 7, depth = 45;
  const Lines a = lines(rng, rows, depth, false), b = lines(rng, depth, cols, false);
  const Packed cells(emulated_amx, a, b, turned(b));
  const std::vector<float> c = product(emulated_amx, cells, depth, rows, cols, false);
  for (std::size_t i = 0; i < 33; ++i)
    for (std::size_t j = 0; j < 40; ++j)
      if (i >= rows || j >= cols) CHECK(c[i * 40 + j] == 0.375F);
}
