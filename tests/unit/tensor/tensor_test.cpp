#include <mha/tensor/tensor.hpp>

#include "support/sanitizers.hpp"

#include <catch2/catch.hpp>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

using namespace mha;
using Catch::Matchers::Contains;

namespace {

Tensor counting(DType dtype, const Shape& shape) {
  Tensor numbers(DType::f64, shape);
  auto values = numbers.as_mutable<double>();
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i % 100);
  return convert(numbers, dtype);
}

constexpr DType every[] = {DType::f64, DType::f32, DType::f16,    DType::bf16, DType::i64,
                           DType::i32, DType::i16, DType::i8,     DType::u64,  DType::u32,
                           DType::u16, DType::u8,  DType::boolean};

} // namespace

TEST_CASE("a dtype is found by NumPy's name and by its short one", "[tensor]") {
  for (const DType dtype : every) CHECK(dtype_named(name_of(dtype)) == dtype);
  CHECK(dtype_named("F32") == DType::f32);
  CHECK(dtype_named("bf16") == DType::bf16);
  CHECK(dtype_named("half") == DType::f16);
  CHECK_THROWS_WITH(dtype_named("float31"), Contains("did you mean 'float32'?"));
  CHECK_THROWS_AS(dtype_named(""), Error);
}

TEST_CASE("shapes are printed as NumPy prints them", "[tensor]") {
  CHECK(to_string(Shape{4, 33, 16}) == "(4, 33, 16)");
  CHECK(to_string(Shape{7}) == "(7,)");
  CHECK(to_string(Shape{}) == "()");
}

TEST_CASE("a count that overflows is an error, also beside an axis of length 0", "[tensor]") {
  const std::size_t big = std::size_t{1} << 40;
  CHECK(count_of(Shape{}) == 1);
  CHECK(count_of(Shape{3, 0, 5}) == 0);
  CHECK_THROWS_AS(count_of(Shape{big, big}), Error);
  CHECK_THROWS_AS(count_of(Shape{0, big, big}), Error);
  CHECK_THROWS_AS(count_of(Shape{std::size_t{1} << 61}), Error); // fits, but its bytes as f64 do not
}

TEST_CASE("memory is zero, aligned to 64 bytes, and refused with its size", "[tensor]") {
  for (const std::size_t count : Shape{1, 5, 100'000}) {
    const Tensor tensor(DType::f32, {count});
    CHECK(reinterpret_cast<std::uintptr_t>(tensor.raw()) % 64 == 0);
    CHECK(tensor.as<float>()[count - 1] == 0);
  }
  CHECK_FALSE(Tensor(DType::f32, {0, 3}).empty());
  CHECK(Tensor().empty());
  if (!sanitized) // AddressSanitizer's allocator ends the program instead
    CHECK_THROWS_WITH(Tensor(DType::f64, {std::size_t{1} << 59}),
                      Contains("4611686018427387904 bytes"));
}

TEST_CASE("elements are seen only as their own type's size", "[tensor]") {
  const Tensor tensor = counting(DType::f32, {2, 3});
  CHECK(tensor.as<float>().size() == 6);
  CHECK_THROWS_AS(tensor.as<double>(), Error);
}

TEST_CASE("reshaped and at share memory", "[tensor]") {
  const Tensor tensor = counting(DType::i16, {4, 3, 5});
  CHECK(tensor.reshaped({12, 5}).raw() == tensor.raw());
  CHECK_THROWS_AS(tensor.reshaped({12, 6}), Error);
  CHECK(tensor.at(2).shape() == Shape{3, 5});
  CHECK(value_at(tensor.at(2), 0) == 30);
  CHECK_THROWS_AS(tensor.at(4), Error);
  CHECK_THROWS_AS(tensor.at(0).at(0).at(0).at(0), Error);
}

TEST_CASE("every half reads back to itself", "[tensor]") {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float value = from_half(half);
    if (std::isnan(value)) {
      REQUIRE(std::isnan(from_half(to_half(value))));
      REQUIRE(std::isnan(from_bfloat16(to_bfloat16(value))));
    } else {
      REQUIRE(to_half(value) == half);
    }
    const float brain = from_bfloat16(half);
    if (!std::isnan(brain)) REQUIRE(to_bfloat16(brain) == half);
  }
}

TEST_CASE("many halves at once are what each is alone", "[tensor]") {
  // The processor's own instructions convert arrays; NaN with a payload, subnormals, ties included.
  std::mt19937 random(2);
  std::vector<float> singles(100'003);
  for (float& value : singles) value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
  for (std::size_t i = 0; i < 0x8000; ++i) { // the neighbours of every middle between two halves
    const float low = from_half(static_cast<std::uint16_t>(i));
    singles[3 * i] = low + (from_half(static_cast<std::uint16_t>(i + 1)) - low) / 2;
  }
  const Tensor halves = convert(Tensor::of<float>({singles.size()}, singles), DType::f16);
  const Tensor back = convert(halves, DType::f32);
  for (std::size_t i = 0; i < singles.size(); ++i) {
    const std::uint16_t half = halves.as<std::uint16_t>()[i];
    REQUIRE(half == to_half(singles[i]));
    REQUIRE((std::bit_cast<std::uint32_t>(back.as<float>()[i]) ==
                 std::bit_cast<std::uint32_t>(from_half(half)) ||
             std::isnan(singles[i])));
  }
}

TEST_CASE("halves round to nearest even", "[tensor]") {
  CHECK(from_half(0x3c00) == 1.0f);
  CHECK(from_half(0x0001) == 0x1p-24f);
  CHECK(from_half(0xfbff) == -65504.0f);
  CHECK(std::isinf(from_half(0x7c00)));
  CHECK(to_half(65519.0f) == 0x7bff); // below the middle of the last step
  CHECK(to_half(65520.0f) == 0x7c00);
  CHECK(to_half(0x1p-25f) == 0x0000); // the middle between 0 and the smallest: to even
  CHECK(to_half(0x1.8p-24f) == 0x0002);
  CHECK(to_half(-0.0f) == 0x8000);
  CHECK(to_half(1.0f + 0x1p-11f) == 0x3c00);
  CHECK(to_half(1.0f + 0x3p-11f) == 0x3c02);
  CHECK(to_bfloat16(1.0f + 0x1p-8f) == 0x3f80);
  CHECK(to_bfloat16(1.0f + 0x3p-8f) == 0x3f82);
  CHECK(std::isinf(from_bfloat16(to_bfloat16(std::numeric_limits<float>::max()))));
}

TEST_CASE("every float rounds to the nearer half", "[tensor]") {
  std::mt19937 random(1);
  for (int i = 0; i < 100'000; ++i) {
    const float value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (!(std::fabs(value) < 65504)) continue;
    const std::uint16_t half = to_half(value);
    const double error =
        std::fabs(static_cast<double>(from_half(half)) - static_cast<double>(value));
    for (const int step : {-1, 1}) {
      const auto other = static_cast<std::uint16_t>(half + step);
      const double distance =
          std::fabs(static_cast<double>(from_half(other)) - static_cast<double>(value));
      if (std::isfinite(distance) && (other & 0x7fff) != 0x7fff) REQUIRE(error <= distance);
    }
  }
}

TEST_CASE("a double becomes a half in one rounding", "[tensor]") {
  // Through float this would round up to a tie, and then away.
  const double just_above = 1.0 + 0x1p-11 + 0x1p-40;
  const double just_below = 1.0 + 0x3p-11 - 0x1p-40;
  const Tensor halves =
      convert(Tensor::of<double>({2}, std::vector{just_above, just_below}), DType::f16);
  CHECK(halves.as<std::uint16_t>()[0] == 0x3c01);
  CHECK(halves.as<std::uint16_t>()[1] == 0x3c01);
}

TEST_CASE("small whole numbers pass through every pair of dtypes", "[tensor]") {
  const Tensor start = counting(DType::f64, {3, 40});
  for (const DType from : every)
    for (const DType to : every) {
      if (from == DType::boolean || to == DType::boolean) continue;
      const Tensor there = convert(convert(start, from), to);
      for (std::size_t i = 0; i < start.count(); ++i)
        REQUIRE(value_at(there, i) == value_at(start, i));
    }
  CHECK(convert(start, DType::f64).raw() == start.raw());
}

TEST_CASE("conversions to integers round to even and saturate", "[tensor]") {
  const Tensor values =
      Tensor::of<double>({6}, std::vector{2.5, 3.5, -300.0, 1e30, std::nan(""), -0.4});
  const Tensor bytes = convert(values, DType::i8);
  const std::vector<std::int8_t> expected{2, 4, -128, 127, 0, 0};
  CHECK(std::vector(bytes.as<std::int8_t>().begin(), bytes.as<std::int8_t>().end()) == expected);
  const Tensor whole = convert(values, DType::i64), natural = convert(values, DType::u64);
  CHECK(whole.as<std::int64_t>()[3] == std::numeric_limits<std::int64_t>::max());
  CHECK(natural.as<std::uint64_t>()[2] == 0);
  const Tensor truth = convert(values, DType::boolean);
  CHECK(value_at(truth, 5) == 1); // not zero
  CHECK(value_at(convert(counting(DType::i32, {1}), DType::boolean), 0) == 0);
}

TEST_CASE("permuted puts every element where its axes say", "[tensor]") {
  for (const DType dtype : {DType::u8, DType::i16, DType::f32, DType::f64}) {
    const Tensor tensor = counting(dtype, {3, 70, 5, 41});
    const std::vector<std::vector<std::size_t>> orders = {
        {0, 1, 2, 3}, {3, 2, 1, 0}, {1, 0, 2, 3}, {0, 3, 1, 2}, {2, 0, 3, 1}};
    for (const auto& order : orders) {
      const Tensor result = permuted(tensor, order);
      Shape from{70 * 5 * 41, 5 * 41, 41, 1};
      std::size_t at = 0;
      const Shape shape = result.shape();
      for (std::size_t a = 0; a < shape[0]; ++a)
        for (std::size_t b = 0; b < shape[1]; ++b)
          for (std::size_t c = 0; c < shape[2]; ++c)
            for (std::size_t d = 0; d < shape[3]; ++d)
              REQUIRE(value_at(result, at++) ==
                      value_at(tensor, a * from[order[0]] + b * from[order[1]] +
                                           c * from[order[2]] + d * from[order[3]]));
    }
  }
  CHECK(permuted(Tensor(DType::f32, {0, 3}), {1, 0}).shape() == Shape{3, 0});
  CHECK_THROWS_AS(permuted(Tensor(DType::f32, {2, 3}), {0, 0}), Error);
  CHECK_THROWS_AS(permuted(Tensor(DType::f32, {2, 3}), {0}), Error);
}

TEST_CASE("transposed exchanges the last two axes", "[tensor]") {
  const Tensor tensor = counting(DType::f32, {2, 3, 4});
  const Tensor result = transposed(tensor);
  CHECK(result.shape() == Shape{2, 4, 3});
  CHECK(value_at(result, 12 + 1 * 3 + 2) == value_at(tensor, 12 + 2 * 4 + 1));
  CHECK_THROWS_AS(transposed(Tensor(DType::f32, {3})), Error);
}

TEST_CASE("a view is copied with its strides", "[tensor]") {
  const Tensor tensor = counting(DType::f32, {4, 6});
  ArrayView view = view_of(tensor);
  CHECK(view.strides == std::vector<std::ptrdiff_t>{6, 1});
  view.shape = {2, 3}; // every second row, columns from the last backwards
  view.strides = {12, -2};
  view.data += 5 * sizeof(float);
  const Tensor copy = copy_of(view);
  const std::vector<float> expected{5, 3, 1, 17, 15, 13};
  CHECK(std::vector(copy.as<float>().begin(), copy.as<float>().end()) == expected);
  CHECK_THROWS_AS(view_of(Tensor(DType::f16, {2})), Error);
}

TEST_CASE("a tensor that is not there stays so in another type") {
  CHECK(mha::convert(mha::Tensor(), mha::DType::f64).empty());
  CHECK(mha::convert(mha::Tensor(), mha::DType::bf16).empty());
}
