// --precision rounds every number that a command prints for programs, and nothing else.

#include "support/run.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include <cmath>

using namespace mha::test;
using Catch::Contains;
using nlohmann::json;

namespace {

/// Compares two outputs, the second rounded to three digits. Returns how many numbers differ.
std::size_t rounded_numbers(const json& exact, const json& rounded) {
  REQUIRE(exact.type_name() == std::string(rounded.type_name()));
  if (exact.is_structured()) {
    REQUIRE(exact.size() == rounded.size());
    std::size_t count = 0;
    auto other = rounded.begin();
    for (auto one = exact.begin(); one != exact.end(); ++one, ++other)
      count += rounded_numbers(*one, *other);
    return count;
  }
  if (!exact.is_number()) {
    CHECK(exact == rounded);
    return 0;
  }
  const double whole = exact.get<double>(), part = rounded.get<double>();
  CHECK(std::abs(whole - part) <= 0.00501 * std::abs(whole));
  return whole != part;
}

} // namespace

TEST_CASE("--precision: of predict, effects and circuits as of show and stats") {
  struct Case {
    const char* command;
    std::size_t at_least; ///< numbers that are rounded
  };
  const Case cases[] = {
      {"predict data/bard-gpt2 --text 'To be' --top 5", 10},
      {"predict data/bard-gpt2 --text 'To be, or' --query all --each-layer", 40},
      {"predict data/bard-gpt2 --text 'To be' --of 'layers.3.head_result[5]' --top 4", 7},
      {"effects data/bard-gpt2 --text 'To be'", 60},
      {"effects data/bard-gpt2 --text 'To be' --text 'or not to' --query all --spread", 90},
      {"effects data/bard-gpt2 --text 'To be' --query all --per-position", 120},
      {"effects data/bard-gpt2 --text 'What news from' --patch-from 'What says my' --sweep output",
       9},
      {"circuits data/bard-gpt2", 120},
      {"circuits data/bard-gpt2 --composition q,k", 300},
      {"stats data/quickstart.json", 8},
      {"show data/quickstart.json -s weights,q", 6}};
  for (const Case& one : cases) {
    INFO(one.command);
    const std::string command = std::string("\"$MHA\" ") + one.command + " -q -f ";
    const Result exact = shell(command + "json"), rounded = shell(command + "json --precision 3");
    REQUIRE((exact.code == 0 && rounded.code == 0));
    CHECK(rounded_numbers(json::parse(exact.out), json::parse(rounded.out)) >= one.at_least);
    const Result csv = shell(command + "csv --precision 3");
    CHECK(csv.code == 0);
    CHECK(csv.out.size() < shell(command + "csv").out.size());
    const Result table = shell(command + "table --precision 3");
    if (std::string(one.command).starts_with("show")) continue;
    CHECK(table.code == 2);
    CHECK_THAT(table.err, Contains("--precision: applies to CSV, TSV and JSON"));
  }
}

TEST_CASE("--precision: a spectrum is CSV, a picture has no digits") {
  const std::string spectrum = "\"$MHA\" circuits data/induction-model --spectrum -q";
  CHECK(shell(spectrum + " --precision 2").out.size() < shell(spectrum).out.size());
  const Result picture =
      shell("\"$MHA\" circuits data/induction-model --precision 2 -o /tmp/never.png -q");
  CHECK(picture.code == 2);
  CHECK_THAT(picture.err, Contains("--precision: applies to CSV"));
}
