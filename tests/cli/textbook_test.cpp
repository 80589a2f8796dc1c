// The textbook, inside and outside: docs/example/attention.cpp beside the program's stages and the
// page that quotes it, and `diff --against textbook`.

#include "support/places.hpp"
#include "support/run.hpp"

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

using namespace mha::test;
using Catch::Contains;
using nlohmann::json;

namespace {

using Stages = std::map<std::string, std::vector<double>>;

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::string page(const std::string& name) {
  std::ifstream file(source_folder() + "/docs/" + name);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// What the example prints: a line a stage, its name and its numbers.
Stages of_example(const std::string& words) {
  const Result result =
      shell(fmt::format("'{}'/tests/example/attention {}", build_folder(), words));
  REQUIRE(result.code == 0);
  Stages stages;
  for (const std::string& line : lines_of(result.out)) {
    std::istringstream stream(line);
    std::string name, number;
    stream >> name;
    while (stream >> number) stages[name].push_back(std::stod(number)); // "-inf", too
  }
  return stages;
}

void append(std::vector<double>& numbers, const json& value) {
  if (value.is_array()) {
    for (const json& one : value) append(numbers, one);
  } else {
    numbers.push_back(value.is_string() ? (value == "-Infinity" ? -HUGE_VAL : std::nan(""))
                                        : value.get<double>());
  }
}

/// The same stages of the program.
Stages of_program(const std::string& layer, const Stages& asked,
                  const std::vector<std::string>& options) {
  std::string names;
  for (const auto& [name, numbers] : asked) names += (names.empty() ? "" : ",") + name;
  std::vector<std::string> arguments{"show", layer, "--stage", names, "--format", "json"};
  arguments.insert(arguments.end(), options.begin(), options.end());
  const Result result = run(arguments);
  INFO(result.err);
  REQUIRE(result.code == 0);
  Stages stages;
  const json told = json::parse(result.out);
  for (const auto& [name, numbers] : asked) append(stages[name], told.at(name).at("data"));
  return stages;
}

/// The quick start with one key/value head, which the columns 0 and 1 of W_k and W_v are.
std::string grouped_quickstart(const Folder& folder) {
  std::ifstream file(source_folder() + "/data/quickstart.json");
  json layer = json::parse(file);
  layer["num_kv_heads"] = 1;
  for (const char* name : {"W_k", "W_v"})
    for (json& row : layer[name]) row = {row[0], row[1]};
  return folder.write("grouped.json", layer.dump());
}

/// How large the largest difference of two stages is.
double distance(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i] != b[i]) largest = std::fmax(largest, std::fabs(a[i] - b[i]));
  return largest;
}

} // namespace

TEST_CASE("textbook: the example's numbers are the program's, with every variant that it has") {
  const Folder folder;
  for (const bool grouped : {false, true})
    for (const bool causal : {false, true})
      for (const bool rope : {false, true}) {
        std::string words;
        std::vector<std::string> options;
        if (grouped) words += " grouped";
        if (causal) words += " causal", options.emplace_back("--causal");
        if (rope) words += " rope", options.insert(options.end(), {"--rope", "half"});
        INFO(words);
        Stages example = of_example(words);
        CHECK(example.size() == 13);
        if (!rope) { // the program has no step that does nothing
          CHECK(example["q_rope"] == example["q"]);
          CHECK(example["k_rope"] == example["k"]);
          example.erase("q_rope"), example.erase("k_rope");
        }
        const Stages program = of_program(
            grouped ? grouped_quickstart(folder) : "data/quickstart.json", example, options);
        for (const auto& [name, numbers] : example) {
          INFO(name);
          REQUIRE_FALSE(numbers.empty());
          CHECK(distance(numbers, program.at(name)) <= 1e-15);
        }
      }
}

TEST_CASE("textbook: the example is one short file that needs nothing but xtensor") {
  const std::string text = page("example/attention.cpp");
  CHECK(lines_of(text).size() <= 120);
  for (const std::string& line : lines_of(text)) {
    CAPTURE(line);
    CHECK(line.size() <= 110); // in bytes; 100 characters
    if (line.starts_with("#include"))
      CHECK(std::regex_match(line, std::regex("#include <(xtensor/x[a-z]+\\.hpp|[a-z]+)>")));
  }
}

TEST_CASE("textbook: docs/maths.md quotes the example's lines, which name the page's equations") {
  const std::string example = page("example/attention.cpp"), maths = page("maths.md");
  std::set<std::string> of_example;
  for (const std::string& line : lines_of(example))
    of_example.insert(line.substr(std::min(line.size(), line.find_first_not_of(' '))));
  std::size_t quoted = 0;
  bool inside = false;
  for (const std::string& line : lines_of(maths)) {
    if (line.starts_with("```")) {
      inside = line == "```cpp";
    } else if (inside) {
      INFO(line);
      CHECK(of_example.contains(line));
      ++quoted;
    }
  }
  CHECK(quoted >= 20);
  // Every step that has a number is quoted below the equation of that number.
  const std::regex step(R"(^ +(const Array .*// \(([\d, ]+)\) .*))"), number(R"(\d+)");
  std::size_t steps = 0;
  for (const std::string& line : lines_of(example)) {
    std::smatch found;
    if (!std::regex_match(line, found, step)) continue;
    INFO(line);
    ++steps;
    const std::size_t place = maths.find(found[1].str());
    CHECK(place != maths.npos);
    const std::string numbers = found[2];
    bool above = false;
    for (std::sregex_iterator it(numbers.begin(), numbers.end(), number), end; it != end; ++it) {
      const std::size_t tag = maths.find(fmt::format("\\tag{{{}}}", it->str()));
      CHECK(tag != maths.npos);
      above = above || tag < place;
    }
    CHECK(above);
  }
  CHECK(steps >= 17);
}

TEST_CASE("textbook: diff computes every stage by it and shows each with its ulp") {
  const json small =
      json::parse(run({"diff", "data/quickstart.json", "--against", "textbook", "-f", "json"}).out);
  CHECK(small["equal"] == true);
  CHECK(small["stages"].size() == 17);
  // A trained layer in float32: rounding is all that there is, and each stage reports how much.
  const Result trained = run({"diff", "data/bard-llama", "--text", "To be, or not to be", "--layer",
                              "1", "--against", "textbook", "-f", "json"});
  CHECK(trained.code == 0);
  const json stages = json::parse(trained.out)["stages"];
  CHECK(stages.size() == 19);
  for (const json& stage : stages) {
    INFO(stage["stage"]);
    CHECK((stage["status"] == "equal" || stage["status"] == "close"));
    CHECK(stage["max_ulp"].is_number());
  }
  const Result whole =
      run({"diff", "data/bard-llama", "--text", "To be, or not to be", "--against", "textbook"});
  CHECK(whole.code == 0);
  CHECK(whole.err == "note: the textbook computes in float64, by the formulas of "
                     "mha/textbook.hpp × 4\n");
  CHECK_THAT(whole.out, Contains("Every layer agrees.") && Contains("3          19  close"));
}

TEST_CASE("textbook: a file of that name is ./textbook, and beside others it is refused") {
  const Folder folder;
  REQUIRE(run({"dump", "data/quickstart.json", "-s", "weights", "-q", "-f", "npz", "-o",
               folder.path("textbook")})
              .code == 0);
  const std::string layer = source_folder() + "/data/quickstart.json";
  const auto diff = [&](std::vector<std::string> against) {
    against.insert(against.begin(), {"diff", layer, "--against"});
    return run(against, {.folder = folder.path()});
  };
  CHECK(diff({"./textbook"}).out.ends_with("\nweights matches bit for bit.\n"));
  CHECK(diff({"textbook"}).out.ends_with("\nAll stages match bit for bit.\n"));
  const Result both = diff({"textbook", "--against", "./textbook"});
  CHECK(both.code == 2);
  CHECK(one_line(both.err));
  CHECK_THAT(both.err, Contains("--against textbook: the textbook has every stage, so it is "
                                "compared alone; a file of that name is ./textbook"));
}

TEST_CASE("textbook: what it does not have is refused by the option's name") {
  const auto refused = [](const std::vector<std::string>& options) {
    std::vector<std::string> arguments{"diff", "data/bard-llama", "--against", "textbook"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    const Result result = run(arguments);
    CHECK(result.code == 2);
    CHECK(one_line(result.err));
    return result.err;
  };
  CHECK_THAT(refused({"--text", "To be", "--layer", "1", "--patch", "layers.1.weights = 0"}),
             Contains("--patch weights: the textbook has no edits of stages; leave this one out"));
  CHECK_THAT(refused({"--text", "To be, or not", "--text", "To be", "--layer", "1"}),
             Contains("the textbook does not compute texts of several lengths at once: give one "
                      "text"));
}
