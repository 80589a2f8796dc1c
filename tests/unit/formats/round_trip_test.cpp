#include "unit/formats/support.hpp"
#include <mha/formats/formats.hpp>

#include <catch2/catch.hpp>

#include <cmath>
#include <limits>
#include <thread>

using namespace mha;
using namespace mha::io;
using Catch::Matchers::Contains;

namespace {

constexpr DType every[] = {DType::f64, DType::f32, DType::f16,    DType::bf16, DType::i64,
                           DType::i32, DType::i16, DType::i8,     DType::u64,  DType::u32,
                           DType::u16, DType::u8,  DType::boolean};

Output extras() {
  Output output;
  output.scalars = {{"num_heads", "4"}, {"scale", "0.125"},     {"causal", "true"},
                    {"rope", "half"},   {"softcap", "NaN"},     {"limit", "-Infinity"},
                    {"tiny", "1e-300"}, {"word", "naïve \"q\""}};
  output.labels = {{"tokens", {"the", "cät", "😀", "", "a\nb"}}};
  return output;
}

} // namespace

TEST_CASE("every format gives back every dtype that it can carry", "[io]") {
  const io::test::Folder folder;
  for (const std::string name : {"a.npz", "a.safetensors", "a.json", "folder"})
    for (const DType dtype : every) {
      const bool numpy = name == "a.npz" || name == "folder";
      if (numpy && dtype == DType::bf16) continue;
      INFO(name << " " << name_of(dtype));
      std::vector<std::pair<std::string, Tensor>> tensors;
      for (const Shape& shape :
           {Shape{2, 3, 5}, Shape{7}, Shape{0, 3}, Shape{1, 1}, Shape{3, 0, 2}})
        tensors.emplace_back(fmt::format("t{}", tensors.size()), io::test::numbers(dtype, shape));
      io::test::write(folder / name, "", tensors);
      const Contents contents = open(folder / name);
      REQUIRE(contents.tensors.size() == tensors.size());
      for (const auto& [label, tensor] : tensors) {
        REQUIRE(contents.find(label) != nullptr);
        CHECK(io::test::same(contents.find(label)->read(), tensor));
        CHECK_FALSE(contents.find(label)->weak_dtype);
      }
    }
}

TEST_CASE("settings and labels come back from every format", "[io]") {
  const io::test::Folder folder;
  for (const std::string name : {"a.npz", "a.safetensors", "a.json", "folder"}) {
    INFO(name);
    io::test::write(folder / name, "", {{"X", io::test::numbers(DType::f32, {2, 3})}}, extras());
    Contents contents = open(folder / name);
    std::ranges::sort(contents.scalars);
    auto expected = extras();
    std::ranges::sort(expected.scalars);
    CHECK(contents.scalars == expected.scalars);
    CHECK(contents.labels == expected.labels);
  }
}

TEST_CASE("special numbers survive as text", "[io]") {
  const io::test::Folder folder;
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const std::vector<double> values{infinity, -infinity, std::nan(""), 0.1, -0.0, 5e-324, 1.7e308};
  const Tensor doubles = Tensor::of<double>({7}, values);
  const Tensor floats = convert(Tensor::of<double>({2}, std::vector{0.1, 1e-45}), DType::f32);
  io::test::write(folder / "a.json", "", {{"d", doubles}, {"f", floats}});
  const std::string text = io::test::contents_of(folder / "a.json");
  CHECK_THAT(text, Contains(R"(["Infinity", "-Infinity", "NaN", 0.1, -0, 5e-324, 1.7e+308])"));
  CHECK_THAT(text, Contains("[0.1, 1e-45]"));
  const Tensor back = open(folder / "a.json").find("d")->read();
  for (std::size_t i = 0; i < values.size(); ++i)
    CHECK((back.as<double>()[i] == values[i] || std::isnan(values[i])));
  CHECK(std::isnan(back.as<double>()[2]));
  CHECK(io::test::same(open(folder / "a.json").find("f")->read(), floats));
}

TEST_CASE("what is written lies aligned and is mapped without a copy", "[io]") {
  const io::test::Folder folder;
  for (const std::string name : {"a.npz", "a.safetensors"}) {
    io::test::write(folder / name, "",
                    {{"odd", io::test::numbers(DType::u8, {3})},
                     {"h", io::test::numbers(DType::f16, {5})},
                     {"X", io::test::numbers(DType::f64, {3, 3})}});
    const Contents contents = open(folder / name);
    const Entry* entry = contents.find("X");
    CHECK(entry->read().raw() == entry->read().raw());
    CHECK(reinterpret_cast<std::uintptr_t>(entry->read().raw()) % (name == "a.npz" ? 64 : 8) == 0);
  }
}

TEST_CASE("pieces are written in any order from several threads", "[io]") {
  const io::test::Folder folder;
  const Tensor tensor = io::test::numbers(DType::f32, {64, 1000});
  for (const std::string name : {"a.npz", "a.safetensors", "a.json", "a.npy", "folder"}) {
    Output output;
    output.items = {{"a", DType::f32, tensor.shape()}};
    const auto writer = create(folder / name, "", output);
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        for (std::size_t row = 64; row-- > 0;)
          if (row % 4 == t) writer->write(0, row * 1000, tensor.raw() + row * 4000, 1000);
      });
    for (std::thread& thread : threads) thread.join();
    writer->finish();
    CHECK(io::test::same(open(folder / name).find("a")->read(), tensor));
  }
}

TEST_CASE("an archive beyond 4 GiB is ZIP64", "[io][.slow]") {
  const io::test::Folder folder;
  Output output;
  const std::size_t count = (std::size_t{1} << 32) + 1000;
  output.items = {{"big", DType::u8, {count}}, {"after", DType::f32, {3}}};
  const Tensor zeros(DType::u8, {std::size_t{1} << 24});
  const Tensor after = io::test::numbers(DType::f32, {3});
  const auto writer = create(folder / "big.npz", "", output);
  for (std::size_t at = 0; at < count; at += zeros.count())
    writer->write(0, at, zeros.raw(), std::min(zeros.count(), count - at));
  writer->write(1, 0, after.raw(), 3);
  writer->finish();
  const Contents contents = open(folder / "big.npz");
  CHECK(contents.find("big")->read().count() == count);
  CHECK(io::test::same(contents.find("after")->read(), after));
}

TEST_CASE("bfloat16 is refused by NumPy's formats with the way out", "[io]") {
  const io::test::Folder folder;
  Output output;
  output.items = {{"X", DType::bf16, {2, 3}}};
  CHECK_THROWS_WITH(create(folder / "a.npz", "", output), Contains("safetensors"));
  CHECK_THROWS_WITH(create(folder / "new/folder/", "", output), Contains("safetensors"));
  CHECK(folder.size() == 0);
}
