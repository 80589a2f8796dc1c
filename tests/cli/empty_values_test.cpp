// An option with an empty value, written in either way: a text may be empty, nothing else is, and
// the next argument is never taken instead.

#include "support/run.hpp"

#include <catch2/catch.hpp>

#include <set>
#include <sstream>

using namespace mha::test;
using Catch::Contains;

namespace {

struct WithValue {
  std::string command, name;
};

/// The options that take a value, each with the first command that has it: the lines
/// "  -s, --stage NAME…" of every command's help.
std::vector<WithValue> options_with_values() {
  std::vector<WithValue> list;
  std::set<std::string> seen;
  for (const std::string command : {"show", "tokens", "dump", "map", "explain", "report", "diff",
                                    "diagnose", "convert", "bench", "predict", "stats", "names"}) {
    std::istringstream help(run({command, "--help", "all"}).out);
    for (std::string line; std::getline(help, line);) {
      if (line.size() < 9 || (line.substr(0, 8) != "      --" && line.substr(0, 3) != "  -"))
        continue;
      std::istringstream words(line);
      std::string name, value;
      words >> name;
      if (!name.starts_with("--")) words >> name;
      words >> value;
      const bool takes = !name.ends_with(',') && !value.empty() &&
                         line.find(name + " " + value) != std::string::npos &&
                         ((value[0] >= 'A' && value[0] <= 'Z') || value.find('|') != value.npos);
      if (takes && name.starts_with("--") && seen.insert(name).second)
        list.push_back({command, name});
    }
  }
  return list;
}

} // namespace

TEST_CASE("an empty value is an error that names the option, in both spellings") {
  const std::vector<WithValue> options = options_with_values();
  CHECK(options.size() > 50);
  for (const auto& [command, name] : options) {
    if (name == "--text") continue;
    for (const std::vector<std::string>& words :
         {std::vector<std::string>{command, name + "=", "data/quickstart.json"},
          std::vector<std::string>{command, "data/quickstart.json", name, ""}}) {
      const Result result = run(words);
      INFO(command << " " << name << "\n" << result.err);
      CHECK(result.code == 2);
      CHECK(result.out.empty());
      CHECK_THAT(result.err, Contains(name + " is '': a value expected"));
    }
  }
  for (const char* letter : {"-s", "-o", "-f", "-H", "-l"})
    CHECK_THAT(run({"show", "data/quickstart.json", letter, ""}).err,
               Contains(" is '': a value expected"));
}

TEST_CASE("an empty text is a text") {
  for (const std::vector<std::string>& text :
       {std::vector<std::string>{"--text="}, std::vector<std::string>{"--text", ""}}) {
    const auto with = [&](std::vector<std::string> words) {
      words.insert(words.end(), text.begin(), text.end());
      words.push_back("-q"); // what follows is not the text
      return run(words);
    };
    const Result bos = with({"tokens", "data/bard-llama", "-f", "json"});
    CHECK(bos.code == 0);
    CHECK_THAT(bos.out, Contains("{\"ids\": [0]"));
    CHECK_THAT(with({"tokens", "data/bard-gpt2", "-f", "json"}).out, Contains("{\"ids\": []"));
    // With a model that puts nothing around it there is nothing to compute with.
    const Result none = with({"show", "data/bard-gpt2"});
    CHECK(none.code == 2);
    CHECK_THAT(none.err, Contains("has no token to compute with"));
    CHECK(with({"predict", "data/bard-llama"}).code == 0);
  }
}

TEST_CASE("a flag takes no value") {
  CHECK_THAT(run({"tokens", "data/bard-llama", "--text", "a", "--bos=x"}).err,
             Contains("--bos is 'x': it takes no value"));
  CHECK(run({"tokens", "data/bard-llama", "--text", "a", "--bos=x"}).code == 2);
}
