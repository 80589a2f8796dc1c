#include "unit/formats/support.hpp"

#include <mha/files/text.hpp>
#include <mha/formats/json_mistake.hpp>

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

TEST_CASE("infinity and NaN are read however people write them", "[io]") {
  const Contents contents =
      read(R"({"mask": [[0, -inf], ["-inf", 0.5]], "b": [1, nan, "+Infinity", "Inf"],
      "c": ["nan", -INF], "only": ["inf", "nan"], "words": ["nan", "bread"], "scale": -inf,
      "e": {"dtype": "float32", "data": [-inf, 1]}})");
  constexpr double infinity = std::numeric_limits<double>::infinity();
  CHECK(values(contents, "mask") == std::vector<double>{0, -infinity, -infinity, 0.5});
  CHECK(std::isnan(values(contents, "b")[1]));
  CHECK(values(contents, "b")[2] == infinity);
  CHECK(values(contents, "b")[3] == infinity);
  CHECK(values(contents, "c")[1] == -infinity);
  CHECK(values(contents, "e")[0] == -infinity);
  CHECK(contents.labels.size() == 2); // words alone are labels
  CHECK(contents.scalars.at(0) == std::pair<std::string, std::string>{"scale", "-Infinity"});
  for (const char* text : {"[1, infinite]", "[1, -info]", "[1, nano]", "[1, --inf]", "[1, - inf]"})
    CHECK_THROWS_WITH(read(text), Contains("a number expected"));
}

TEST_CASE("a mistake in JSON is named in the words of its cure", "[io]") {
  struct Case {
    std::string text, refusal;
  };
  const Case cases[]{
      {R"({"X": [[1]], "num_heads": 1, })", "column 28: a comma before the closing }: remove it"},
      {"[[1, 0], [0, 1],\n ]", "line 1, column 16: a comma before the closing ]: remove it"},
      {"[1, 2 // two\n]", "column 7: ',' or ']' expected: JSON has no comments: remove it"},
      {"{\"a\": 1, # one\n}", "a name in quotes expected: JSON has no comments: remove it"},
      {"% one\n[1]", "JSON has no comments: remove it"},
      {"[/* one */ 1]", "a number expected: JSON has no comments: remove it"},
      {"[1/2, 1]", "',' or ']' expected: JSON has no fractions: write 0.5"},
      {R"({"scale": 1 / 8})", "',' or '}' expected: JSON has no fractions: write 0.125"},
      {"[1/0]", "JSON has no fractions: write the number"},
      {"[.5, 1]", "column 2: a number expected: write 0.5"},
      {"[1, -.25]", "a number expected: write -0.25"},
      {R"({"scale": .5})", "a value expected: write 0.5"},
      {"[5., 1]", "column 2: digits expected after the point: write 5.0"},
      {"[-007]", "a number with a leading zero: write -7"},
      {"[00.5]", "a number with a leading zero: write 0.5"},
      {"[+3]", "a number expected: write 3 without the +"},
      {"[−3]", "write a minus as the keyboard's -"},
      {"[1, ..., 4]", "a number expected: write all the numbers"},
      {"[1, …, 4]", "a number expected: write all the numbers"},
      {"{'X': [1]}", "a name in quotes expected: JSON writes text in double quotes: \"X\""},
      {"{\"tokens\": ['the']}", "a number expected: JSON writes text in double quotes: \"the\""},
      {"{“X”: [1]}", "write straight quotes: \""},
      {"{X: [1]}", "a name in quotes expected: write \"X\""},
      {"{\"X\" = [1]}", "':' expected: JSON writes \"name\": value"},
      {"{\"X\", [1]}", "column 5: ':' expected: a name needs a value"},
      {"[1 2]", "column 4: ',' or ']' expected: a comma is missing before it"},
      {"[[1, 2]\n [3, 4]]", "line 2, column 2: ',' or ']' expected: a comma is missing before it"},
      {R"({"X": [1] "Y": [2]})", "',' or '}' expected: a comma is missing before it"},
      {R"(["a" "b"])", "',' or ']' expected: a comma is missing before it"},
      {"[1,, 2]", "a number expected: two commas: remove one"},
      {"[, 2]", "a comma after the opening bracket: remove it"},
      {"[1 2; 3 4]", "a comma is missing before it"},
      {"[1, 2; 3, 4]", "each row is a list of its own: [[1, 2], [3, 4]]"},
      {R"({"X": [[1, 0], [0, 1], "num_heads": 1})", "a closing ] is missing before this name"},
      {R"({"X": [1, 0, "num_heads": 1})", "a closing ] is missing before this name"},
      {R"({"X": [[1, 0], [0, 1] "num_heads": 1})", "a closing ] is missing before this name"},
      {R"({"tokens": ["a", "b", "num_heads": 1})", "column 23: a closing ] is missing before this"},
      {R"({"X": [1, 0})", "',' or ']' expected: a closing ] is missing before it"},
      {R"({"rope": {"base": 2])", "',' or '}' expected: a closing } is missing before it"},
      {"{\"X\": [[1, 0],\n[0, 1]",
       "the text ends; ',' or ']' expected: the [ of line 1, column 7 is "
       "not closed"},
      {"{\"X\": [1]",
       "the text ends; ',' or '}' expected: the { of line 1, column 1 is not closed"},
      {"{\"tokens\": [\"a\", \"]\"", "the [ of line 1, column 12 is not closed"},
      {"[1]]", "more text after the end of the JSON value: one closing ] too many"},
      {R"({"X": [1]} {"Y": [1]})",
       "more text after the end of the JSON value: put all names into one"},
      {"(1, 2)", "JSON writes lists in square brackets"},
      {"[np.inf, 1]", "a number expected: write -inf, inf or nan"},
      {"[1, -math.inf]", "a number expected: write -inf, inf or nan"},
      {"[sqrt(2)]", "a number expected: JSON has no formulas: write the number"},
      {"[True, False]", "JSON writes true, false and null"},
      {"[\"a\n\"]", "a control character (\\x0a) in a string: its closing quote is missing"},
  };
  for (const Case& one : cases) {
    INFO(one.text);
    CHECK_THROWS_WITH(read(one.text), Contains(one.refusal));
  }
  // A text of the file is shown, and does nothing.
  CHECK_THROWS_WITH(read("{'\x1b[31mX': 1}"), Contains("double quotes: \"\\x1b[31mX\""));
}

TEST_CASE("a mistake in JSON knows the text around it, cut where a line is long", "[io]") {
  const auto around = [](const std::string& text) {
    try {
      read(text);
    } catch (const JsonError& error) {
      return *error.around;
    }
    return JsonLine{};
  };
  const JsonLine first = around("{\"X\": [1,\n\t2 3], \"é\": 1}\r\n");
  CHECK(first.before == " 2 ");
  CHECK(first.after == "3], \"é\": 1}");
  CHECK(around("[1, 2").after.empty());
  std::string numbers = "[";
  for (int i = 0; i < 500; ++i) numbers += "12.5, ";
  const JsonLine cut = around(numbers + "x, " + numbers.substr(1) + "1]");
  CHECK(cut.before.size() == 60);
  CHECK(cut.before.ends_with("12.5, "));
  CHECK(cut.after.size() == 30);
  CHECK(cut.after.starts_with("x, 12.5"));
  for (std::size_t shift = 0; shift < 3; ++shift) { // no character is cut
    const JsonLine wide = around("[\"" + std::string(shift, 'a') + [] {
      std::string text;
      for (int i = 0; i < 50; ++i) text += "é€";
      return text;
    }() + "\" x");
    CHECK(invalid_utf8(wide.before) == std::string::npos);
    CHECK(invalid_utf8(wide.after) == std::string::npos);
  }
}
