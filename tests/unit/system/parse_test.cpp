#include <mha/system/parse.hpp>

#include <catch2/catch.hpp>

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

using mha::parse_number;

TEST_CASE("a number is the whole of a text, within its type") {
  CHECK(parse_number<std::size_t>("0") == 0u);
  CHECK(parse_number<std::size_t>("18446744073709551615") == 18446744073709551615u);
  CHECK(parse_number<std::int64_t>("-9223372036854775808") == INT64_MIN);
  CHECK(parse_number<unsigned>("fF", 16) == 255u);
  CHECK(parse_number<double>("-1.5e-3") == -0.0015);
  CHECK(std::isinf(parse_number<double>("inf").value()));

  for (const std::string text :
       {"", " 1", "1 ", "+1", "1,", "0x10", "1.0", "-1", "18446744073709551616", "one"}) {
    INFO(text);
    CHECK_FALSE(parse_number<std::size_t>(text));
  }
  for (const char* text : {"", "1e999", "1..", "1e", " 1"}) {
    INFO(text);
    CHECK_FALSE(parse_number<double>(text));
  }
  CHECK_FALSE(parse_number<std::int64_t>("9223372036854775808"));
  CHECK_FALSE(parse_number<unsigned>("fg", 16));
}

TEST_CASE("a number is taken off the front of a text, which else stays") {
  const auto rest_of = [](std::string_view text) {
    const auto number = mha::take_number<std::size_t>(text);
    return std::pair(number, std::string(text));
  };
  CHECK(rest_of("12,5") == std::pair(std::optional<std::size_t>(12), std::string(",5")));
  CHECK(rest_of("12") == std::pair(std::optional<std::size_t>(12), std::string()));
  for (const std::string text : {"", "x1", "-1", " 1", "18446744073709551616,"})
    CHECK(rest_of(text) == std::pair(std::optional<std::size_t>(), text));
  std::string_view hexadecimal = "ff g";
  CHECK(mha::take_number<unsigned>(hexadecimal, 16) == 255u);
  CHECK(hexadecimal == " g");
}
