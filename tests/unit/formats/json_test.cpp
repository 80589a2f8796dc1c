#include "unit/formats/support.hpp"

#include <catch2/catch.hpp>

#include <cmath>

using namespace mha;
using namespace mha::io;
using Catch::Matchers::Contains;

namespace {

Contents read(const std::string& text) {
  const auto data = std::make_shared<std::string>(text);
  return format_named("json").read(
      {"layer.json", {data, reinterpret_cast<const std::byte*>(data->data())}, data->size()});
}

std::vector<double> values(const Contents& contents, const std::string& name) {
  const Tensor tensor = contents.find(name)->read();
  std::vector<double> result(tensor.count());
  for (std::size_t i = 0; i < result.size(); ++i) result[i] = value_at(tensor, i);
  return result;
}

} // namespace

TEST_CASE("lists of numbers are tensors of a weak float64", "[io]") {
  const Contents contents = read(R"({"X": [[1, 2.5], [-3e2, 0]], "b": [], "c": [[], []]})");
  const Entry* entry = contents.find("X");
  REQUIRE(entry);
  CHECK(entry->shape == Shape{2, 2});
  CHECK(entry->dtype == DType::f64);
  CHECK(entry->weak_dtype);
  CHECK(values(contents, "X") == std::vector<double>{1, 2.5, -300, 0});
  CHECK(contents.find("b")->shape == Shape{0});
  CHECK(contents.find("c")->shape == Shape{2, 0});
}

TEST_CASE("lists of booleans are boolean, numbers beside them an error", "[io]") {
  const Contents contents = read(R"({"mask": [[true, false]], "numbers": [1, 0, null]})");
  CHECK(contents.find("mask")->dtype == DType::boolean);
  CHECK_FALSE(contents.find("mask")->weak_dtype);
  CHECK(contents.find("numbers")->dtype == DType::f64);
  CHECK(std::isnan(values(contents, "numbers")[2]));
  for (const char* mixed : {R"({"mixed": [true, 0]})", R"({"mixed": [[1, 0], [0, false]]})"})
    CHECK_THROWS_WITH(read(mixed), Contains("true or false in an array of numbers"));
}

TEST_CASE("NaN and Infinity are numbers, bare or quoted, beside numbers", "[io]") {
  const Contents contents = read(R"({"a": [1, NaN, -Infinity, "Infinity", "NaN", "-Infinity"],
               "b": [["NaN", "Infinity"], [1, 2]], "c": ["NaN", 1], "d": ["NaN", "Infinity"],
               "e": {"shape": [2], "dtype": "float32", "data": ["NaN", "-Infinity"]}})");
  CHECK(std::isnan(values(contents, "a")[1]));
  CHECK(values(contents, "a")[2] < 0);
  CHECK(values(contents, "a")[3] > 0);
  CHECK(values(contents, "b")[1] > 1e300);
  CHECK(values(contents, "c")[1] == 1);
  CHECK(contents.find("d") == nullptr); // only words: labels
  CHECK(contents.labels.at(0).second == std::vector<std::string>{"NaN", "Infinity"});
  CHECK(values(contents, "e")[1] < -1e300);
  CHECK(contents.find("e")->dtype == DType::f32);
}

TEST_CASE("strings, numbers and truth values are settings as text", "[io]") {
  const Contents contents = read(
      R"({"a": 4, "b": 1.50, "c": true, "d": "d_k", "e": null, "f": 1e-5, "g": 9007199254740993,
          "h": "\u00e9\ud83d\ude00\n", "rope": {"base": 1e4, "deep": {"er": false}}})");
  using Scalars = decltype(contents.scalars);
  CHECK(contents.scalars == Scalars{{"a", "4"},
                                    {"b", "1.5"},
                                    {"c", "true"},
                                    {"d", "d_k"},
                                    {"f", "1e-05"},
                                    {"g", "9007199254740993"},
                                    {"h", "é😀\n"},
                                    {"rope.base", "10000"},
                                    {"rope.deep.er", "false"}});
}

TEST_CASE("an object of shape, dtype and data is a tensor, in any order of its keys", "[io]") {
  const Contents contents = read(
      R"({"a": {"shape": [2, 2], "dtype": "float16", "data": [[1, 2], [3, 4]]},
          "b": {"data": [1, 2, 3, 4], "dtype": "int64", "shape": [2, 2]},
          "c": {"dtype": "int64", "data": [9007199254740993], "shape": [1]},
          "d": {"data": [18446744073709551615], "dtype": "uint64"},
          "e": {"shape": [], "dtype": "float32", "data": 0.5},
          "f": {"shape": [0, 3], "dtype": "bool", "data": []},
          "g": {"shape": [2], "data": [1, 2]},
          "h": {"dtype": "bool", "data": [1, 0]}, "i": {"data": [1, 2], "other": 3}})");
  CHECK(contents.find("a")->dtype == DType::f16);
  CHECK_FALSE(contents.find("a")->weak_dtype);
  CHECK(contents.find("b")->shape == Shape{2, 2});
  const Tensor c = contents.find("c")->read(), d = contents.find("d")->read();
  CHECK(c.as<std::int64_t>()[0] == 9007199254740993);
  CHECK(d.as<std::uint64_t>()[0] == 18446744073709551615u);
  CHECK(contents.find("e")->shape.empty());
  CHECK(values(contents, "e")[0] == 0.5);
  CHECK(contents.find("f")->shape == Shape{0, 3});
  CHECK(contents.find("g")->weak_dtype);
  CHECK(contents.find("h")->dtype == DType::boolean);
  CHECK(contents.find("i.data") != nullptr);
}

TEST_CASE("a bare list is named by the file", "[io]") {
  CHECK(read("[[1, 2]]").tensors.at(0).name == "layer");
  CHECK(read(R"(["the", "cat"])").labels.at(0).first == "layer");
  CHECK(read(R"({"shape": [1], "dtype": "float32", "data": [1]})").tensors.at(0).name == "layer");
}

TEST_CASE("mistakes are reported with line and column", "[io]") {
  CHECK_THROWS_WITH(read("{\"é\": [1,\n  2, x]}"),
                    "layer.json: line 2, column 6: a number expected");
  CHECK_THROWS_WITH(read("\xef\xbb\xbf{\"a\": x}"),
                    "layer.json: line 1, column 7: a value expected");
  CHECK_NOTHROW(read("\xef\xbb\xbf{\"a\": 1}"));
  CHECK_THROWS_WITH(read("{\"X\": [-"), Contains("a number expected"));
}

TEST_CASE("underflow is 0, and digits beyond float64 are read", "[io]") {
  const Contents contents =
      read("[1e-999, 0.1000000000000000055511151231257827021181583404541015625]");
  CHECK(values(contents, "layer") == std::vector<double>{0, 0.1});
}
