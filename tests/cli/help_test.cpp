// What the help promises works: every example of every command, as it is printed.

#include "support/places.hpp"
#include "support/run.hpp"

#include <catch2/catch.hpp>

#include <sstream>

using namespace mha::test;

namespace {

/// The lines under "Examples" that are commands, in their order.
std::vector<std::string> examples_of(const std::string& help) {
  std::vector<std::string> lines;
  std::istringstream text(help.substr(std::min(help.find("\nExamples\n"), help.size())));
  for (std::string line; std::getline(text, line);)
    if (line.starts_with("  mha-inspect ")) lines.push_back(line.substr(2));
  return lines;
}

/// The commands that the program lists.
std::vector<std::string> commands() {
  std::vector<std::string> names;
  std::istringstream text(run({"--help"}).out);
  std::string line;
  while (std::getline(text, line) && line != "Commands") {
  }
  while (std::getline(text, line) && line.starts_with("  ")) {
    const std::string name = line.substr(2, line.find(' ', 2) - 2);
    if (!name.empty()) names.push_back(name); // a summary may run on, further in
  }
  return names;
}

/// Runs lines of help where a reader would: beside data/, with the program in PATH.
void try_examples(const std::string& help) {
  const std::vector<std::string> lines = examples_of(help);
  CHECK_FALSE(lines.empty());
  Folder folder;
  std::filesystem::create_directory_symlink(mha::test::source_folder() + "/data",
                                            folder.path("data"));
  for (const std::string& line : lines) {
    const Result result =
        shell("PATH=\"$(dirname \"$MHA\"):$PATH\"; " + line, {.folder = folder.path()});
    INFO("$ " << line << "\n" << result.err);
    // A comparison that finds a difference is an example that works.
    const bool differs = line.starts_with("mha-inspect diff ") && result.code == 1;
    CHECK((result.code == 0 || differs));
    CHECK(result.err.empty());
  }
}

} // namespace

TEST_CASE("help: every example of every command works as it is printed") {
  const std::vector<std::string> names = commands();
  CHECK(names.size() >= 6);
  for (const std::string& name : names) {
    INFO(name);
    const Result help = run({name, "--help"});
    REQUIRE(help.code == 0);
    try_examples(help.out);
  }
}

TEST_CASE("help: the first lines to try work as they are printed") {
  try_examples(run({"--help"}).out);
}
