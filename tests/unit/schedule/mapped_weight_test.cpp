#include <mha/schedule/linear.hpp>

#include <mha/files/bytes.hpp>
#include <mha/system/file.hpp>
#include <mha/tensor/storage.hpp>

#include "support/run.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

using namespace mha;

namespace {

constexpr std::size_t in = 300, out = 520; // of weights that are stored (out, in)

/// Different numbers, none of them large, in a type of weights.
Tensor numbers(DType dtype, const Shape& shape) {
  Tensor made(DType::f64, shape);
  std::size_t seed = 7;
  for (double& x : made.as_mutable<double>()) {
    seed = (seed * 1664525 + 1013904223) % 4294967296;
    x = static_cast<double>(seed) / 4294967296 - 0.5;
  }
  return convert(made, dtype);
}

/// The weight from a file large enough to be mapped, after `before` bytes of something else.
Tensor mapped(const test::Folder& folder, const Tensor& W, std::size_t before) {
  std::string bytes(before, 'x');
  bytes.append(reinterpret_cast<const char*>(W.raw()), W.bytes());
  bytes.append(std::size_t{300} << 10, '\0');
  folder.write("weight", bytes);
  const io::Bytes file = io::read_bytes(folder.path("weight"));
  REQUIRE(file.mapped);
  return {W.dtype(), W.shape(), io::in_place(file, before, W.bytes())};
}

template <class T>
std::vector<T> product(const Tensor& W, const Tensor& x, std::size_t first, std::size_t columns) {
  const std::size_t rows = x.shape()[0];
  std::vector<T> y(rows * columns);
  WeightInUse<T> weight;
  weight.prepare(Routine::fma, W, nullptr, rows, 1, false);
  weight.multiply({x.as<T>().data(), rows, in, in}, first, {y.data(), rows, columns, columns});
  return y;
}

template <class T> void check_products(const Tensor& mapped, const Tensor& W) {
  for (const std::size_t rows : std::vector<std::size_t>{1, 7, 40, 300})
    for (const auto& [first, columns] : {std::pair{0, 520}, {64, 456}, {128, 64}, {512, 8}}) {
      INFO(name_of(W.dtype()) << " " << rows << " rows, " << columns << " columns from " << first);
      const Tensor x = numbers(dtype_of<T>, {rows, in});
      const auto at = static_cast<std::size_t>(first), n = static_cast<std::size_t>(columns);
      CHECK(product<T>(mapped, x, at, n) == product<T>(W, x, at, n));
    }
}

} // namespace

TEST_CASE("products with a mapped weight have the bits of those with the same weight in memory") {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
    const test::Folder folder;
    const Tensor stored = numbers(dtype, {out, in});
    const Tensor file = mapped(folder, stored, 4096 + 64);
    CHECK(reads_from_file(transposed_when_read(file)));
    CHECK_FALSE(reads_from_file(transposed_when_read(stored)));
    CHECK_FALSE(reads_from_file(file)); // its columns are not one piece of the file
    check_products<float>(transposed_when_read(file), transposed_when_read(stored));
    check_products<double>(transposed_when_read(file), transposed_when_read(stored));
  }
}

TEST_CASE("a mapped weight whose file became shorter is an error, not a signal") {
  const test::Folder folder;
  const Tensor W = transposed_when_read(mapped(folder, numbers(DType::f32, {out, in}), 64));
  std::filesystem::resize_file(folder.path("weight"), 4096);
  const Tensor x = numbers(DType::f32, {3, in});
  CHECK_THROWS_WITH(product<float>(W, x, 0, out),
                    Catch::Contains("weight: became shorter while it was read"));
}
