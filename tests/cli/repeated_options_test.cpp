// An option that is given twice: its values join, or each of them counts, or the second one is an
// error unless it is the same. None is passed over in silence.

#include "support/run.hpp"
#include "support/share.hpp"

#include <catch2/catch.hpp>

#include <set>
#include <sstream>

using namespace mha::test;
using Catch::Contains;

namespace {

/// The options whose help states by itself, or by the form of its value, that they may come again.
const std::set<std::string> go_on{
    "--against", "--atol",       "--batch",       "--composition", "--head",
    "--ids",     "--key",        "--kind",        "--layer",       "--measures",
    "--minus",   "--minus-ids",  "--minus-batch", "--minus-head",  "--minus-patch",
    "--over",    "--minus-text", "--patch",       "--patch-from",  "--patch-from-ids",
    "--query",   "--rtol",       "--separators",  "--stage",       "--together",
    "--sweep",   "--text",       "--text-file",   "--vocab"};

/// The options of a command that take a value: "  -s, --stage NAME…" of its help.
std::vector<std::string> with_values(const std::string& command) {
  std::vector<std::string> names;
  std::istringstream help(run({command, "--help", "all"}, {.env = {{"COLUMNS", "300"}}}).out);
  for (std::string line; std::getline(help, line);) {
    if (!line.starts_with("      --") && !line.starts_with("  -")) continue;
    const std::size_t at = line.find("--"), end = line.find_first_of(" ,", at);
    if (end + 1 < line.size() && line[end] == ' ' && line[end + 1] != ' ')
      names.push_back(line.substr(at, end - at));
  }
  return names;
}

} // namespace

TEST_CASE("repeated: another value of an option that takes one is an error, whatever the command") {
  Share share(7);
  std::size_t tried = 0;
  for (const std::string command :
       {"show", "dump", "map", "explain", "stats", "report", "diff", "diagnose", "convert", "bench",
        "predict", "effects", "circuits", "tokens", "info", "stages", "names"})
    for (const std::string& name : with_values(command)) {
      if (!share.takes(command)) continue;
      std::vector<std::string> words{command, name, "1", name, "2"};
      if (command != "names") words.push_back("data/quickstart.json");
      const Result result = run(words);
      INFO(command << " " << name << "\n" << result.err);
      const bool refused =
          result.err.find(name + " is set to '1' and to '2', but takes one value") !=
          std::string::npos;
      CHECK(refused == !go_on.contains(name));
      if (refused) CHECK(result.code == 2);
      ++tried;
    }
  CHECK(tried > share.of(400));
}

TEST_CASE("repeated: the same value again is no other, an opposite is") {
  const std::vector<std::string> show{"show", "data/quickstart.json"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), show.begin(), show.end());
    return run(more);
  };
  CHECK(with({"--scale", "0.5", "--scale", "0.5"}).out == with({"--scale", "0.5"}).out);
  CHECK(with({"--causal", "--causal"}).out == with({"--causal"}).out);
  const Result both = with({"--causal", "--no-causal"});
  CHECK(both.code == 2);
  CHECK_THAT(both.err, Contains("--causal and --no-causal contradict each other; leave one out"));
  CHECK(with({"-s", "q", "--stage", "k", "-f", "json"}).out ==
        with({"-s", "q,k", "-f", "json"}).out);
}

TEST_CASE("repeated: lists of what is subtracted join, and tolerances do not differ in silence") {
  const std::vector<std::string> map{"map", "data/bard-gpt2", "--text", "To be, or not", "--layer",
                                     "1",   "--head",         "0,1"};
  const auto with = [](std::vector<std::string> words, const std::vector<std::string>& more) {
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  };
  CHECK(with(map, {"--minus-head", "2", "--minus-head", "3"}).out ==
        with(map, {"--minus-head", "2,3"}).out);
  const std::vector<std::string> diff{"diff", "data/quickstart.json", "--against",
                                      "X=data/quickstart.json"};
  CHECK_THAT(with(diff, {"--atol", "1e-4", "--atol", "1e-5"}).err,
             Contains("--atol is set to 0.0001 and to 1e-05: one tolerance expected"));
  CHECK_THAT(with(diff, {"--rtol", "q:0.1,q:0.2"}).err,
             Contains("--rtol is set to 0.1 and to 0.2 for q: one tolerance expected"));
  CHECK_THAT(with(diff, {"--rtol", "q:0.1,k:0.2,0.3"}).err, !Contains("one tolerance"));
}
