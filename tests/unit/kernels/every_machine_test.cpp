#include <mha/kernels/dispatch.hpp>
#include <mha/kernels/tiled.hpp>

#include <catch2/catch.hpp>

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string_view>
#include <vector>

// Bits that are the same on every processor with fused multiply-adds. Where a machine has one such
// set of instructions, there is no other to compare it with: the products' chains are written out,
// and of rows the digest of what AVX2 gives is kept here.

namespace {

/// The sets of this machine that fuse.
template <class T> std::vector<const mha::Kernels<T>*> fusing_kernels() {
  const auto sets = mha::available_kernels<T>();
  return {sets.begin() + 1, sets.end()};
}

/// Numbers in [low, high] that no function of a library took part in.
template <class T>
std::vector<T> numbers(std::size_t n, double low, double high, std::mt19937_64& rng) {
  std::vector<T> row(n);
  for (T& x : row)
    x = static_cast<T>(low + (high - low) * (static_cast<double>(rng() >> 20) * 0x1p-44));
  return row;
}

/// FNV-1a of the bits of numbers (Fowler, Noll and Vo), which a single bit changes.
class Digest {
public:
  template <class T> void add(T x) {
    std::array<unsigned char, sizeof(T)> bytes;
    std::memcpy(bytes.data(), &x, sizeof x);
    for (const unsigned char byte : bytes) value_ = (value_ ^ byte) * 0x100000001b3U;
  }
  std::uint64_t value() const { return value_; }

private:
  std::uint64_t value_ = 0xcbf29ce484222325U;
};

} // namespace

TEMPLATE_TEST_CASE("a product is a chain of fused multiply-adds", "", float, double) {
  using T = TestType;
  struct Sizes {
    std::size_t m, n, k;
  };
  std::mt19937_64 rng(1);
  for (const auto [m, n, k] : {Sizes{1, 1, 1},
                               {1, 37, 19},
                               {3, 4, 5},
                               {5, 64, 33},
                               {6, 16, 40},
                               {7, 29, 530},
                               {8, 8, 8},
                               {9, 11, 600},
                               {23, 45, 17},
                               {50, 18, 21}})
    for (const mha::Kernels<T>* kernels : fusing_kernels<T>())
      for (const bool transposed : {false, true}) {
        CAPTURE(kernels->name, m, n, k, transposed);
        const auto a = numbers<T>(m * k, -2, 2, rng), b = numbers<T>(k * n, -2, 2, rng);
        std::vector<T> found = numbers<T>(m * n, -2, 2, rng), expected = found;
        for (std::size_t i = 0; i < m; ++i)
          for (std::size_t j = 0; j < n; ++j)
            for (std::size_t p = 0; p < k; ++p)
              expected[i * n + j] = std::fma(a[i * k + p], transposed ? b[j * k + p] : b[p * n + j],
                                             expected[i * n + j]);
        const std::size_t rows = transposed ? n : k, cols = transposed ? k : n;
        mha::multiply_tiled<T>(*kernels, {a.data(), m, k, k}, {b.data(), rows, cols, cols},
                               transposed, {found.data(), m, n, n}, true);
        CHECK(std::memcmp(found.data(), expected.data(), m * n * sizeof(T)) == 0);
      }
}

TEMPLATE_TEST_CASE("exponentials have the same bits on every machine", "", float, double) {
  using T = TestType;
  constexpr bool single = sizeof(T) == sizeof(float);
  for (const mha::Kernels<T>* kernels : fusing_kernels<T>()) {
    CAPTURE(kernels->name);
    std::mt19937_64 rng(2);
    Digest digest;
    for (std::size_t n = 0; n < 300; ++n) {
      // Of every size, subnormal results among them, and as scores are.
      const double low = n % 3 != 0 ? -20 : single ? -105 : -746;
      auto row = numbers<T>(n, low, n % 3 != 0 ? 20 : single ? 88 : 709, rng);
      digest.add(kernels->row_exp_sum(row.data(), n, n % 2 == 0 ? T(0) : T(1.25), T(0.875)));
      for (const T x : row) digest.add(x);
    }
    CHECK(digest.value() == (single ? 0xc0b87e0c6c8654cfU : 0x6df31a4601a6283bU));
  }
}

TEMPLATE_TEST_CASE("sums of measures have AVX2's bits on every machine with its width", "", float,
                   double) {
  using T = TestType;
  for (const mha::Kernels<T>* kernels : fusing_kernels<T>()) {
    if (std::string_view(kernels->name) == "avx512") continue; // twice as many lanes
    CAPTURE(kernels->name);
    std::mt19937_64 rng(3);
    Digest digest;
    for (std::size_t n = 0; n < 300; ++n) {
      auto row = numbers<T>(n, 0, n % 2 == 0 ? 1 : 0x1p-20, rng);
      for (std::size_t i = 0; i < n; i += 7) row[i] = 0;
      const mha::RowSums sums = kernels->row_sums(row.data(), n, T(0.25));
      for (const double sum : {sums.sum, sums.entropy, sums.overlap, sums.first, sums.second})
        digest.add(sum);
    }
    CHECK(digest.value() ==
          (sizeof(T) == sizeof(float) ? 0xe701d8f68266388aU : 0x2eb8f2db9789eabU));
  }
}
