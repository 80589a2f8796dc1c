#include "support/emulated_amx.hpp"
#include "support/sanitizers.hpp"
#include <mha/kernels/bf16x3.hpp>
#include <mha/kernels/tiled.hpp>
#include <mha/tensor/tensor.hpp>

#include <catch2/catch.hpp>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

// Split products of several blocks: 256 rows and 512 of the depth, split once or while read.

using mha::Bf16x3Matrix;
using mha::Matrix;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

struct Numbers {
  std::size_t rows, cols;
  std::vector<float> values;

  Numbers(std::size_t r, std::size_t c) : rows(r), cols(c), values(r * c) {}
  Numbers(std::size_t r, std::size_t c, std::mt19937& rng) : Numbers(r, c) {
    std::normal_distribution<float> normal;
    for (float& value : values) value = normal(rng);
  }
  float& at(std::size_t i, std::size_t j) { return values[i * cols + j]; }
  float at(std::size_t i, std::size_t j) const { return values[i * cols + j]; }
  Matrix<float> view() { return {values.data(), rows, cols, cols}; }
  Matrix<const float> view() const { return {values.data(), rows, cols, cols}; }
};

Numbers turned(const Numbers& b) {
  Numbers result(b.cols, b.rows);
  for (std::size_t i = 0; i < b.rows; ++i)
    for (std::size_t j = 0; j < b.cols; ++j) result.at(j, i) = b.at(i, j);
  return result;
}

/// How op(b) is stored and whether it is split ahead.
struct Way {
  bool transposed, ahead;
};
constexpr Way ways[] = {{false, false}, {false, true}, {true, false}, {true, true}};

Numbers product(const Numbers& a, const Numbers& b, Way way) {
  const Numbers other = way.transposed ? turned(b) : Numbers(0, 0);
  Numbers c(a.rows, b.cols);
  const Bf16x3Matrix operand(way.transposed ? other.view() : b.view(), way.transposed,
                             way.ahead ? mha::bf16x3_as_read + 1 : 1, 2);
  operand.multiply(a.view(), 0, 0, c.view(), false);
  return c;
}

Numbers plain_product(const Numbers& a, const Numbers& b) {
  Numbers c(a.rows, b.cols);
  mha::multiply_tiled<float>(mha::kernels<float>(), a.view(), b.view(), false, c.view(), false);
  return c;
}

bool same_bits(float a, float b) {
  return std::memcmp(&a, &b, sizeof(float)) == 0;
}

bool same_bits(const Numbers& a, const Numbers& b) {
  return std::memcmp(a.values.data(), b.values.data(), a.values.size() * sizeof(float)) == 0;
}

/// The error of a result over Σ |a b|, root mean square.
double error_of(const Numbers& a, const Numbers& b, const Numbers& c) {
  double squares = 0;
  for (std::size_t i = 0; i < c.rows; ++i)
    for (std::size_t j = 0; j < c.cols; ++j) {
      double sum = 0, size = 0;
      for (std::size_t k = 0; k < a.cols; ++k) {
        const double one = static_cast<double>(a.at(i, k)) * b.at(k, j);
        sum += one, size += std::fabs(one);
      }
      squares += std::pow((c.at(i, j) - sum) / size, 2);
    }
  return std::sqrt(squares / static_cast<double>(c.rows * c.cols));
}

/// A number that does not split, and what it keeps from being split: the 32 rows of a or the 32
/// columns of b where it is stored, in its block of the depth.
struct Spoilt {
  float value;
  bool left;
  std::size_t at, k;
};

bool near(float a, float b, double bound) {
  return std::fabs(static_cast<double>(a) - b) <= bound;
}

/// How many elements are not as they should be. Beside the strip of the spoilt number they have the
/// bits of the product without it; in it, those whose row or column is another are as near to it as
/// float32 is, but of the plain path; those that hold the number are what the plain path gives.
struct Wrong {
  std::size_t beside = 0, in_strip = 0, spoilt = 0, plain = 0;
};

Wrong count_wrong(const Numbers& a, const Numbers& b, const Numbers& clean, const Spoilt& spoilt,
                  Way way) {
  Numbers left = a, right = b;
  (spoilt.left ? left.at(spoilt.at, spoilt.k) : right.at(spoilt.k, spoilt.at)) = spoilt.value;
  const Numbers found = product(left, right, way), plain = plain_product(left, right);
  Wrong wrong;
  for (std::size_t i = 0; i < found.rows; ++i)
    for (std::size_t j = 0; j < found.cols; ++j) {
      const std::size_t at = spoilt.left ? i : j;
      const float c = found.at(i, j), expected = plain.at(i, j);
      if (at / 32 != spoilt.at / 32)
        wrong.beside += !same_bits(c, clean.at(i, j));
      else if (at != spoilt.at)
        wrong.in_strip += !near(c, expected, 1e-4), wrong.plain += !same_bits(c, clean.at(i, j));
      else if (std::isfinite(expected))
        wrong.spoilt += !near(c, expected, 1e-5 * std::fabs(expected));
      else
        wrong.spoilt += std::isnan(expected) ? !std::isnan(c) : c != expected;
    }
  return wrong;
}

} // namespace

TEST_CASE("bf16x3: several blocks have the same bits split once and while read, turned or not") {
  const WithBf16x3 tiles;
  std::mt19937 rng(11);
  for (const std::size_t depth : {33u, 512u, 513u, 1100u}) {
    const Numbers a(290, depth, rng), b(depth, 75, rng);
    const Numbers expected = product(a, b, ways[0]);
    for (const Way& way : ways) {
      CAPTURE(depth, way.transposed, way.ahead);
      CHECK(same_bits(product(a, b, way), expected));
    }
  }
}

TEST_CASE("bf16x3: the depth can be cut at blocks of 512, and begin at any cell") {
  const WithBf16x3 tiles;
  std::mt19937 rng(12);
  const Numbers a(70, 1184, rng), b(1184, 96, rng);
  for (const bool ahead : {false, true}) {
    const Bf16x3Matrix operand(b.view(), false, ahead ? 1000 : 1, 1);
    for (const std::size_t first : {0u, 32u, 608u}) {
      const std::size_t depth = 1184 - first, cut = std::min<std::size_t>(512, depth);
      Numbers whole(70, 64), pieces(70, 64);
      const Matrix<const float> from = a.view().cols_from(first, depth);
      operand.multiply(from, first, 32, whole.view(), false);
      operand.multiply(from.cols_from(0, cut), first, 32, pieces.view(), false);
      operand.multiply(from.cols_from(cut, depth - cut), first + cut, 32, pieces.view(), true);
      CAPTURE(ahead, first);
      CHECK(same_bits(whole, pieces));
      Numbers part_a(70, depth), part_b(depth, 64);
      for (std::size_t k = 0; k < depth; ++k) {
        for (std::size_t i = 0; i < 70; ++i) part_a.at(i, k) = a.at(i, first + k);
        for (std::size_t j = 0; j < 64; ++j) part_b.at(k, j) = b.at(first + k, 32 + j);
      }
      CHECK(error_of(part_a, part_b, whole) < 0x1p-24);
    }
  }
}

TEST_CASE("bf16x3: a matrix of bfloat16 has the bits it has beside numbers of more parts") {
  const WithBf16x3 tiles;
  std::mt19937 rng(16);
  const Numbers a(70, 600, rng);
  Numbers b(600, 70, rng);
  for (float& x : b.values) x = mha::from_bfloat16(mha::to_bfloat16(x));
  Numbers longer = b; // a strip with all three parts, in the first block of the depth
  for (std::size_t k = 0; k < 512; ++k) longer.at(k, 40) += 0x1.0008p-9F;
  for (const Way& way : ways) {
    if (sanitized && way.transposed) continue;
    const Numbers short_product = product(a, b, way), long_product = product(a, longer, way);
    std::size_t same = 0, changed = 0;
    for (std::size_t i = 0; i < 70; ++i)
      for (std::size_t j = 0; j < 70; ++j) {
        const bool equal = same_bits(short_product.at(i, j), long_product.at(i, j));
        (j == 40 ? changed : same) += j == 40 ? !equal : equal;
      }
    CAPTURE(way.transposed, way.ahead);
    CHECK(same == 70 * 69);
    CHECK(changed > 60);
    CHECK(error_of(a, b, short_product) < 0x1p-24);
  }
}

TEST_CASE("bf16x3: the error is at most 0.6 times that of a chain of multiply-adds") {
  const WithEmulatedBf16x3 tiles;
  std::mt19937 rng(13);
  for (const std::size_t depth : {256u, 1100u}) {
    const Numbers a(64, depth, rng), b(depth, 96, rng);
    CAPTURE(depth);
    CHECK(error_of(a, b, product(a, b, ways[0])) <= 0.6 * error_of(a, b, plain_product(a, b)));
  }
}

TEST_CASE("bf16x3: only the strip of a number that does not split takes the plain path") {
  const WithBf16x3 tiles;
  std::mt19937 rng(14);
  const Numbers a(290, 600, rng), b(600, 100, rng);
  for (const Way& way : ways) {
    if (sanitized && !(way.transposed && way.ahead)) continue;
    const Numbers clean = product(a, b, way);
    for (const float value : {infinity, -infinity, std::nanf(""), 0x1p50F, 3e38F})
      for (const std::size_t k : {5u, 599u}) // either block of the depth
        for (const bool left : {true, false}) {
          CAPTURE(way.transposed, way.ahead, value, k, left);
          const Wrong wrong = count_wrong(a, b, clean, {value, left, left ? 270u : 70u, k}, way);
          CHECK(wrong.beside == 0);
          CHECK(wrong.in_strip == 0);
          CHECK(wrong.spoilt == 0);
          CHECK(wrong.plain > 0);
        }
  }
}

TEST_CASE("bf16x3: rows and columns of tiny numbers take the plain path, zeros do not") {
  const WithBf16x3 tiles;
  std::mt19937 rng(15);
  const Numbers a(64, 64, rng), b(64, 64, rng);
  const Numbers split = product(a, b, ways[0]), plain = plain_product(a, b);
  for (const auto& [left, right, splits] : {std::tuple(0.0F, 1.0F, true),
                                            {1.0F, 0.0F, true},
                                            {0x1p-50F, 1.0F, true},
                                            {1.0F, 0x1p-30F, true},
                                            {0x1p-70F, 1.0F, false},
                                            {1.0F, 0x1p-50F, false}}) {
    Numbers small_a = a, small_b = b;
    for (std::size_t k = 0; k < 64; ++k) small_a.at(40, k) *= left, small_b.at(k, 40) *= right;
    const Numbers found = product(small_a, small_b, ways[0]);
    const bool in_rows = left != 1;
    CAPTURE(left, right);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < 64; ++i)
      for (std::size_t j = 0; j < 64; ++j) {
        const std::size_t at = in_rows ? i : j;
        const Numbers& expected = splits || at < 32 ? split : plain;
        wrong += at != 40 && !same_bits(found.at(i, j), expected.at(i, j));
      }
    CHECK(wrong == 0);
  }
}
