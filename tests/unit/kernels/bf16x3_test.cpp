#include "support/emulated_amx.hpp"
#include "support/sanitizers.hpp"
#include <mha/kernels/bf16x3.hpp>
#include <mha/kernels/dispatch.hpp>
#include <mha/kernels/tiled.hpp>

#include <catch2/catch.hpp>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <vector>

using mha::Bf16x3Matrix;
using mha::Matrix;

namespace {

struct Numbers {
  std::size_t rows, cols;
  std::vector<float> values;

  Numbers(std::size_t r, std::size_t c) : rows(r), cols(c), values(r * c) {}
  Numbers(std::size_t r, std::size_t c, const std::function<double()>& draw) : Numbers(r, c) {
    for (float& value : values) value = static_cast<float>(draw());
  }
  float& at(std::size_t i, std::size_t j) { return values[i * cols + j]; }
  float at(std::size_t i, std::size_t j) const { return values[i * cols + j]; }
  Matrix<float> view() { return {values.data(), rows, cols, cols}; }
  Matrix<const float> view() const { return {values.data(), rows, cols, cols}; }
};

Numbers bf16x3_product(const Numbers& a, const Numbers& b) {
  Numbers c(a.rows, b.cols);
  Bf16x3Matrix(b.view(), false, a.rows, 1).multiply(a.view(), 0, 0, c.view(), false);
  return c;
}

Numbers plain_product(const Numbers& a, const Numbers& b) {
  Numbers c(a.rows, b.cols);
  mha::multiply_tiled<float>(mha::kernels<float>(), a.view(), b.view(), false, c.view(), false);
  return c;
}

/// The error of a result over Σ |a b|, root mean square, in units of 2⁻²⁴.
double error_of(const Numbers& a, const Numbers& b, const Numbers& c) {
  double squares = 0;
  for (std::size_t i = 0; i < c.rows; ++i)
    for (std::size_t j = 0; j < c.cols; ++j) {
      double sum = 0, size = 0;
      for (std::size_t p = 0; p < a.cols; ++p) {
        const double product = static_cast<double>(a.at(i, p)) * b.at(p, j);
        sum += product, size += std::fabs(product);
      }
      squares += std::pow((c.at(i, j) - sum) / size, 2);
    }
  return std::sqrt(squares / static_cast<double>(c.rows * c.cols)) * 0x1p24;
}

bool same_bits(const Numbers& a, const Numbers& b) {
  return std::memcmp(a.values.data(), b.values.data(), a.values.size() * sizeof(float)) == 0;
}

} // namespace

TEST_CASE("bf16x3: nearer to the exact product than a chain of float32 multiply-adds") {
  const WithBf16x3 tiles;
  std::mt19937 rng(1);
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> positive(0, 1);
  const auto draw_normal = [&] { return normal(rng); };
  const auto draw_positive = [&] { return positive(rng); }; // errors do not cancel
  const auto draw_wide = [&] { return normal(rng) * std::exp2(40 * positive(rng) - 20); };
  for (const std::size_t depth : {48u, 64u, 777u})
    for (const std::function<double()>& draw :
         {std::function<double()>(draw_normal), std::function<double()>(draw_positive),
          std::function<double()>(draw_wide)}) {
      const Numbers a(65, depth, draw), b(depth, 71, draw);
      CAPTURE(depth, error_of(a, b, plain_product(a, b)));
      CHECK(error_of(a, b, bf16x3_product(a, b)) <= error_of(a, b, plain_product(a, b)));
    }
}

TEST_CASE("bf16x3: products of whole numbers are exact") {
  const WithBf16x3 tiles;
  std::mt19937 rng(2);
  std::uniform_int_distribution<int> whole(-1000, 1000);
  const Numbers a(70, 16, [&] { return whole(rng); }), b(16, 33, [&] { return whole(rng); });
  CHECK(error_of(a, b, bf16x3_product(a, b)) == 0); // sums below 2²⁴
}

TEST_CASE("bf16x3: the same bits however rows and columns are cut, op(b) turned or not") {
  const WithBf16x3 tiles;
  std::mt19937 rng(3);
  std::normal_distribution<double> normal;
  const auto draw = [&] { return normal(rng); };
  const Numbers a(301, 150, draw), b(150, 203, draw);
  Numbers turned(203, 150);
  for (std::size_t i = 0; i < 203; ++i)
    for (std::size_t j = 0; j < 150; ++j) turned.at(i, j) = b.at(j, i);
  const Numbers whole = bf16x3_product(a, b);
  for (const bool transposed : {false, true})
    for (const std::size_t in_all : {10u, 1000u}) { // split as read, and ahead
      const Bf16x3Matrix operand(transposed ? turned.view() : b.view(), transposed, in_all, 2);
      for (const std::size_t rows : {1u, 7u, 16u, 40u, 300u})
        for (const std::size_t cols : {32u, 64u, 192u}) {
          if (sanitized && rows < 16) continue; // emulated AMX is slow
          CAPTURE(transposed, rows, cols);
          Numbers pieces(301, 203);
          for (std::size_t i = 0; i < 301; i += rows)
            for (std::size_t j = 0; j < 203; j += cols) {
              const std::size_t in = std::min<std::size_t>(rows, 301 - i);
              const std::size_t jn = std::min<std::size_t>(cols, 203 - j);
              operand.multiply(a.view().rows_from(i, in), 0, j,
                               pieces.view().rows_from(i, in).cols_from(j, jn), false);
            }
          CHECK(same_bits(whole, pieces));
        }
    }
}

TEST_CASE("bf16x3: what would lose bits when split is multiplied as it is") {
  const WithBf16x3 tiles;
  std::mt19937 rng(4);
  std::normal_distribution<double> normal;
  const auto draw = [&] { return normal(rng); };
  const float inf = std::numeric_limits<float>::infinity();
  const Numbers a(100, 90, draw), b(90, 101, draw);
  const Numbers plain = plain_product(a, b), split = bf16x3_product(a, b);
  REQUIRE_FALSE(same_bits(plain, split));
  for (const float special : {inf, -inf, std::nanf(""), 3e38F, 1e20F}) {
    CAPTURE(special);
    Numbers left = a, right = b;
    left.at(40, 17) = special;
    const Numbers by_left = bf16x3_product(left, b), expected_left = plain_product(left, b);
    right.at(3, 70) = special;
    const Numbers by_right = bf16x3_product(a, right), expected_right = plain_product(a, right);
    for (std::size_t i = 0; i < 100; ++i)
      for (std::size_t j = 0; j < 101; ++j) {
        const auto check = [&](bool by_itself, float found, float expected) {
          CAPTURE(i, j, by_itself);
          if (!by_itself)
            CHECK(found == split.at(i, j));
          else if (std::isnan(expected))
            CHECK(std::isnan(found));
          else
            CHECK(found == expected);
        };
        check(i / 32 == 1, by_left.at(i, j), expected_left.at(i, j));
        check(j / 32 == 2, by_right.at(i, j), expected_right.at(i, j));
      }
  }
  // Rows or columns of the tiniest numbers alone; beside larger ones they count little.
  Numbers left = a, right = b;
  for (std::size_t p = 0; p < 90; ++p) left.at(5, p) *= 1e-36F, right.at(p, 5) *= 1e-36F;
  for (std::size_t j = 0; j < 101; ++j) {
    CHECK(bf16x3_product(left, b).at(5, j) == plain_product(left, b).at(5, j));
    CHECK(bf16x3_product(a, right).at(j % 100, 5) == plain_product(a, right).at(j % 100, 5));
  }
}
