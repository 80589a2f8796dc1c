#include <mha/naming/tensor_names.hpp>
#include <mha/render/numbers.hpp>

#include <catch2/catch.hpp>

#include <cmath>
#include <limits>

using namespace mha;
using namespace mha::render;

namespace {

template <class T> std::string text(T value, Dialect dialect = Dialect::csv,
                                    std::optional<std::size_t> precision = {}) {
  std::string out;
  NumberWriter(dialect, precision).append(out, value);
  return out;
}

std::string in_column(std::vector<double> values, std::size_t digits = 4) {
  const Tensor tensor = Tensor::of<double>({values.size()}, values);
  const ColumnFormat format(tensor, digits);
  std::string out;
  for (double value : values) {
    format.append(out, value, format.width());
    out += '|';
  }
  return out;
}

constexpr double infinity = std::numeric_limits<double>::infinity();

} // namespace

TEST_CASE("numbers are the shortest text that reads back") {
  CHECK(text(0.1f) == "0.1");
  CHECK(text(0.1) == "0.1");
  CHECK(text(1.0 / 3) == "0.3333333333333333");
  CHECK(text(1.0f / 3) == "0.33333334");
  CHECK(text(1.0) == "1");
  CHECK(text(-0.0) == "-0");
  CHECK(text(1e-30) == "1e-30");
  CHECK(text(std::numeric_limits<double>::denorm_min()) == "5e-324");
  CHECK(text(2.0 / 3, Dialect::csv, 3) == "0.667");
}

TEST_CASE("what is not finite has a word in every dialect") {
  CHECK(text(-infinity) == "-inf");
  CHECK(text(infinity) == "inf");
  CHECK(text(std::nan("")) == "nan");
  CHECK(text(-infinity, Dialect::json) == "\"-Infinity\"");
  CHECK(text(infinity, Dialect::json) == "\"Infinity\"");
  CHECK(text(std::nanf(""), Dialect::json) == "\"NaN\"");
}

TEST_CASE("single numbers are rounded for eyes") {
  CHECK(rounded(0) == "0");
  CHECK(rounded(-6.21349) == "-6.213");
  CHECK(rounded(0.0302) == "0.030");
  CHECK(rounded(0.00002134) == "2.13e-05");
  CHECK(rounded(12345678) == "1.23e+07");
  CHECK(rounded(-infinity) == "-inf");
}

TEST_CASE("numbers of a column share one format") {
  CHECK(in_column({0.25, 0, 1, 0.00004}) == "0.2500|     0|1.0000|0.0000|");
  CHECK(in_column({0.25, 0.5, 0}) == "0.2500|0.5000|     0|");
  CHECK(in_column({-41.237, 3, 0.5}) == "-41.24|  3.00|  0.50|");
  CHECK(in_column({1, -infinity}) == "1.0000|  -inf|");
  CHECK(in_column({0, 0}) == "0|0|");
  CHECK(in_column({2.5e-7, 1e-9}) == "2.500e-07|1.000e-09|");
  CHECK(in_column({123456, 1}, 4) == "123456.0|     1.0|");
  CHECK(in_column({9.9999, 1}) == "10.000| 1.000|");
}

TEST_CASE("text is quoted for JSON, CSV and TSV") {
  CHECK(json_string("a\"b\\\n\x01") == "\"a\\\"b\\\\\\n\\u0001\"");
  CHECK(json_string("日本\xff") == "\"日本\xef\xbf\xbd\"");
  CHECK(csv_field("plain") == "plain");
  CHECK(csv_field("a,\"b\"") == "\"a,\"\"b\"\"\"");
  CHECK(tsv_field("a\tb\\") == "a\\tb\\\\");
  CHECK(render::shape_text({4, 33, 16}) == "4 × 33 × 16");
  CHECK(render::shape_text({}) == "1");
}
