#include <mha/kernels/bf16x3.hpp>
#include <mha/kernels/dispatch.hpp>
#include <mha/kernels/packed.hpp>
#include <mha/kernels/routine.hpp>
#include <mha/kernels/tiled.hpp>

#include <mha/system/error.hpp>

#include "support/emulated_amx.hpp"
#include "support/with_routine.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <thread>
#include <utility>
#include <vector>

using mha::Matrix;
using mha::PackedMatrix;
using mha::Routine;

namespace {

/// A matrix with room to its right, so that strides and columns differ.
template <class T> struct Block {
  std::size_t rows, cols, stride;
  std::vector<T> data;

  Block(std::size_t r, std::size_t c, std::size_t room = 3, T value = T(0))
      : rows(r), cols(c), stride(c + room), data(r * (c + room) + 1, value) {}
  Matrix<T> view() { return {data.data(), rows, cols, stride}; }
  Matrix<const T> view() const { return {data.data(), rows, cols, stride}; }
  T& at(std::size_t i, std::size_t j) { return data[i * stride + j]; }
  T at(std::size_t i, std::size_t j) const { return data[i * stride + j]; }
};

template <class T> Block<T> random_block(std::size_t rows, std::size_t cols, std::mt19937& rng) {
  Block<T> block(rows, cols);
  std::normal_distribution<double> normal;
  for (T& x : block.data) x = static_cast<T>(normal(rng));
  return block;
}

template <class T> Block<T> transposed(const Block<T>& b) {
  Block<T> result(b.cols, b.rows);
  for (std::size_t i = 0; i < b.rows; ++i)
    for (std::size_t j = 0; j < b.cols; ++j) result.at(j, i) = b.at(i, j);
  return result;
}

template <class T> bool same_bits(const Block<T>& a, const Block<T>& b) {
  return a.data.size() == b.data.size() &&
         std::memcmp(a.data.data(), b.data.data(), a.data.size() * sizeof(T)) == 0;
}

/// The largest |error| in units of rounding · Σ |a b|, plus what lay outside c and was touched.
template <class T> double worst_error(const Block<T>& a, const Block<T>& b, const Block<T>& before,
                                      const Block<T>& after, bool accumulate) {
  double worst = 0;
  for (std::size_t i = 0; i < after.rows; ++i) {
    for (std::size_t j = 0; j < after.cols; ++j) {
      long double sum = accumulate ? before.at(i, j) : T(0), size = std::fabs(sum);
      for (std::size_t p = 0; p < a.cols; ++p) {
        const long double product = static_cast<long double>(a.at(i, p)) * b.at(p, j);
        sum += product;
        size += std::fabs(product);
      }
      const long double unit = size * std::numeric_limits<T>::epsilon() / 2;
      const long double error = std::fabs(sum - static_cast<long double>(after.at(i, j)));
      if (error > 0) worst = std::max(worst, static_cast<double>(error / unit));
      if (std::isnan(after.at(i, j))) return std::numeric_limits<double>::infinity();
    }
    for (std::size_t j = after.cols; j < after.stride; ++j)
      if (after.at(i, j) != before.at(i, j)) return std::numeric_limits<double>::infinity();
  }
  return worst;
}

struct Sizes {
  std::size_t m, n, k;
};

/// Edges of every tile and block in use, and sizes by chance.
std::vector<Sizes> sizes_to_try(std::mt19937& rng) {
  std::vector<Sizes> sizes = {{0, 3, 2},       {3, 0, 2},     {3, 2, 0},     {1, 1, 1},
                              {4, 4, 4},       {1, 48, 7},    {8, 48, 3},    {9, 49, 65},
                              {17, 97, 33},    {33, 1, 20},   {1, 130, 700}, {270, 50, 20},
                              {20, 1500, 200}, {21, 30, 1300}};
  for (std::size_t m = 1; m < 10; ++m)
    sizes.push_back({m, 60 + m, 120 + m}); // few rows, and one more
  sizes.push_back({5, 33, 1100});
  std::uniform_int_distribution<std::size_t> size(1, 100);
  for (int i = 0; i < 40; ++i) sizes.push_back({size(rng), size(rng), size(rng)});
  return sizes;
}

/// A sum of k products has k + 1 roundings; `more` where a product itself is a sum.
template <class T> void check_products(Routine routine, double more = 0) {
  std::mt19937 rng(7);
  for (const auto [m, n, k] : sizes_to_try(rng))
    for (const bool accumulate : {false, true}) {
      CAPTURE(m, n, k, accumulate);
      const Block<T> a = random_block<T>(m, k, rng), b = random_block<T>(k, n, rng);
      const Block<T> before = random_block<T>(m, n, rng);
      Block<T> after = before;
      PackedMatrix<T>(routine, b.view(), false, 0)
          .multiply(a.view(), 0, 0, after.view(), accumulate);
      CHECK(worst_error(a, b, before, after, accumulate) <= static_cast<double>(k) + 1 + more);
      if (accumulate) continue;
      after = before;
      const Block<T> b_transposed = transposed(b);
      PackedMatrix<T>(routine, b_transposed.view(), true, 0).multiply(a.view(), 0, 0, after.view());
      CHECK(worst_error(a, b, before, after, false) <= static_cast<double>(k) + 1 + more);
    }
}

} // namespace

TEST_CASE("products of a b in bfloat16 have the bits of the converted b") {
  std::mt19937 rng(11);
  for (const mha::Kernels<float>* kernels : mha::available_kernels<float>())
    for (const auto [m, n, k] : sizes_to_try(rng)) {
      CAPTURE(kernels->name, m, n, k);
      const Block<float> a = random_block<float>(m, k, rng);
      Block<float> b = random_block<float>(n, k, rng); // (out, in)
      Block<std::uint16_t> bits(n, k);
      if (n * k > 3) b.at(n - 1, k - 1) = std::numeric_limits<float>::infinity();
      for (std::size_t i = 0; i < b.data.size(); ++i) {
        std::uint32_t whole = 0;
        std::memcpy(&whole, &b.data[i], sizeof whole);
        bits.data[i] = static_cast<std::uint16_t>(whole >> 16);
        whole &= 0xffff0000U;
        std::memcpy(&b.data[i], &whole, sizeof whole);
      }
      Block<float> expected = random_block<float>(m, n, rng), found = expected;
      multiply_tiled<float>(*kernels, a.view(), b.view(), true, expected.view(), false);
      mha::multiply_bf16(*kernels, a.view(), std::as_const(bits).view(), found.view());
      CHECK(same_bits(found, expected));
    }
}

TEMPLATE_TEST_CASE("a product agrees with the sums in long double", "", float, double) {
  check_products<TestType>(Routine::fma);
}

TEST_CASE("a product of split numbers agrees with the sums in long double") {
  const WithBf16x3 bf16x3;
  check_products<float>(Routine::bf16x3, 5); // six products of parts, added up
}

TEMPLATE_TEST_CASE("every instruction set's product agrees with the sums", "", float, double) {
  std::mt19937 rng(8);
  for (const auto [m, n, k] : sizes_to_try(rng))
    for (const mha::Kernels<TestType>* kernels : mha::available_kernels<TestType>())
      for (const bool accumulate : {false, true}) {
        CAPTURE(m, n, k, accumulate, kernels->name);
        const auto a = random_block<TestType>(m, k, rng), b = random_block<TestType>(k, n, rng);
        const auto before = random_block<TestType>(m, n, rng);
        auto plain = before, turned = before;
        mha::multiply_tiled<TestType>(*kernels, a.view(), b.view(), false, plain.view(),
                                      accumulate);
        CHECK(worst_error(a, b, before, plain, accumulate) <= static_cast<double>(k) + 1);
        mha::multiply_tiled<TestType>(*kernels, a.view(), transposed(b).view(), true, turned.view(),
                                      accumulate);
        CHECK(same_bits(plain, turned));
      }
}

TEMPLATE_TEST_CASE("instruction sets with fused multiply-adds give the same bits", "", float,
                   double) {
  std::mt19937 rng(9);
  const auto sets = mha::available_kernels<TestType>();
  for (const auto [m, n, k] : sizes_to_try(rng)) {
    CAPTURE(m, n, k);
    const auto a = random_block<TestType>(m, k, rng), b = random_block<TestType>(k, n, rng);
    std::vector<Block<TestType>> results;
    for (std::size_t s = 1; s < sets.size(); ++s) {
      results.emplace_back(m, n);
      mha::multiply_tiled<TestType>(*sets[s], a.view(), b.view(), false, results.back().view(),
                                    false);
      CHECK(same_bits(results.front(), results.back()));
    }
  }
}

TEMPLATE_TEST_CASE("a product has the same bits however it is cut", "", float, double) {
  std::mt19937 rng(10);
  const std::size_t m = 75, n = 163, k = 431;
  const auto a = random_block<TestType>(m, k, rng), b = random_block<TestType>(k, n, rng);
  const auto b_turned = transposed(b);
  for (const mha::Kernels<TestType>* kernels : mha::available_kernels<TestType>()) {
    CAPTURE(kernels->name);
    Block<TestType> whole(m, n);
    mha::multiply_tiled<TestType>(*kernels, a.view(), b.view(), false, whole.view(), false);
    for (int round = 0; round < 30; ++round) {
      // Cut points by chance along each axis.
      const auto cuts = [&rng](std::size_t size) {
        std::vector<std::size_t> points = {0, size};
        for (int c = 0; c < 3; ++c)
          points.push_back(std::uniform_int_distribution<std::size_t>(0, size)(rng));
        std::sort(points.begin(), points.end());
        return points;
      };
      const auto rows = cuts(m), cols = cuts(n), depths = cuts(k);
      const bool turned = round % 2 == 1;
      Block<TestType> pieces(m, n);
      for (std::size_t r = 0; r + 1 < rows.size(); ++r)
        for (std::size_t c = 0; c + 1 < cols.size(); ++c)
          for (std::size_t d = 0; d + 1 < depths.size(); ++d) {
            const std::size_t i = rows[r], j = cols[c], p = depths[d];
            const std::size_t in = rows[r + 1] - i, jn = cols[c + 1] - j, pn = depths[d + 1] - p;
            const auto a_part = a.view().rows_from(i, in).cols_from(p, pn);
            const auto b_part = turned ? b_turned.view().rows_from(j, jn).cols_from(p, pn)
                                       : b.view().rows_from(p, pn).cols_from(j, jn);
            mha::multiply_tiled<TestType>(*kernels, a_part, b_part, turned,
                                          pieces.view().rows_from(i, in).cols_from(j, jn), d > 0);
          }
      CHECK(same_bits(whole, pieces));
    }
  }
}

TEMPLATE_TEST_CASE("a product carries NaN and infinity to the elements they belong to", "", float,
                   double) {
  const TestType inf = std::numeric_limits<TestType>::infinity();
  std::mt19937 rng(11);
  for (const mha::Kernels<TestType>* kernels : mha::available_kernels<TestType>()) {
    CAPTURE(kernels->name);
    auto a = random_block<TestType>(11, 13, rng), b = random_block<TestType>(13, 70, rng);
    a.at(3, 5) = std::numeric_limits<TestType>::quiet_NaN();
    b.at(2, 50) = inf;
    for (std::size_t i = 0; i < a.rows; ++i) a.at(i, 2) = 1;
    a.at(7, 2) = 0; // 0 · inf is NaN
    Block<TestType> c(11, 70);
    mha::multiply_tiled<TestType>(*kernels, a.view(), b.view(), false, c.view(), false);
    for (std::size_t i = 0; i < c.rows; ++i)
      for (std::size_t j = 0; j < c.cols; ++j) {
        CAPTURE(i, j);
        if (i == 3 || (i == 7 && j == 50))
          CHECK(std::isnan(c.at(i, j)));
        else if (j == 50)
          CHECK(c.at(i, j) == inf);
        else
          CHECK(std::isfinite(c.at(i, j)));
      }
  }
}

TEST_CASE("the routine depends on the layer's sizes") {
  const Routine large = mha::bf16x3_available() ? Routine::bf16x3 : Routine::fma;
  CHECK(mha::routine_for<float>(4, 4, 4) == Routine::fma);
  CHECK(mha::routine_for<float>(1u << 16, 1u << 12, 1u << 12) == large);
  CHECK(mha::routine_for<float>(1, 1u << 12, 1u << 12) == Routine::fma);
  CHECK(mha::routine_for<float>(1u << 20, 1, 1u << 16) == Routine::fma);
  CHECK(mha::routine_for<double>(1u << 16, 1u << 12, 1u << 12) == Routine::fma);
}

TEST_CASE("refuses matrices that do not fit together") {
  std::vector<double> data(100);
  const Matrix<const double> a = {data.data(), 2, 3, 3}, b = {data.data(), 4, 5, 5};
  const Matrix<double> c = {data.data() + 50, 2, 5, 5};
  const PackedMatrix<double> plain(Routine::fma, b, false, 0), turned(Routine::fma, b, true, 0);
  CHECK_NOTHROW(plain.multiply(a, 1, 0, c));
  CHECK_THROWS_AS(plain.multiply(a, 2, 0, c), mha::Error); // rows 2 … 4 of 4
  CHECK_THROWS_AS(plain.multiply(a, 0, 64, c), mha::Error);
  CHECK_THROWS_AS(plain.multiply(a, 0, 0, c.rows_from(0, 1)), mha::Error);
  CHECK_THROWS_AS(turned.multiply(a, 0, 0, c), mha::Error); // 5 columns of 4
}
