#include <mha/compare/precision.hpp>

#include <catch2/catch.hpp>

#include <cmath>

using namespace mha;

namespace {

/// Numbers of every size, as a type holds them, stored in another.
Tensor rounded_numbers(DType precision, DType stored) {
  Tensor numbers(DType::f64, {64});
  for (std::size_t i = 0; i < 64; ++i)
    numbers.as_mutable<double>()[i] =
        std::sin(static_cast<double>(i) + 1) * std::exp(static_cast<double>(i % 7));
  return convert(convert(numbers, precision), stored);
}

} // namespace

TEST_CASE("precision: numbers of a short type are known as such, however they are stored") {
  for (DType precision : {DType::bf16, DType::f16, DType::f32, DType::f64})
    for (DType stored : {DType::f32, DType::f64}) {
      if (precision == DType::f64 && stored == DType::f32) continue;
      INFO(name_of(precision) << " stored as " << name_of(stored));
      CHECK(precision_of(rounded_numbers(precision, stored), stored) == precision);
    }
  CHECK(precision_of(rounded_numbers(DType::bf16, DType::bf16), DType::bf16) == DType::bf16);
}

TEST_CASE("precision: few numbers, or numbers of few bits, do not tell") {
  Tensor masks(DType::f32, {40}), few(DType::f32, {4}), counts(DType::f32, {40});
  for (std::size_t i = 0; i < 40; ++i) {
    masks.as_mutable<float>()[i] = i % 2 == 0 ? 0.0F : -1e9F;
    counts.as_mutable<float>()[i] = static_cast<float>(i % 5);
  }
  for (float& number : few.as_mutable<float>()) number = 1.0078125F; // 1 + 2⁻⁷
  CHECK(precision_of(masks, DType::f32) == DType::f32);
  CHECK(precision_of(counts, DType::f32) == DType::f32);
  CHECK(precision_of(few, DType::f32) == DType::f32);
}
