// Every command block of the README and the docs runs and prints what the page shows.
//
// A block is fenced as ```sh; a line that starts with "$ " is a command (a backslash at its end
// continues it), the lines after it are what it prints, standard error included. A line that is
// only "…" stands for any lines. Commands run in a folder with the project's data/, one folder a
// page.

#include "support/places.hpp"

#include <catch2/catch.hpp>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <stdlib.h>
#include <sys/wait.h>

namespace fs = std::filesystem;

namespace {

struct Example {
  int line = 0;
  std::string command;
  std::vector<std::string> output;
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

std::string read(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<Example> examples_of(const fs::path& page) {
  std::vector<Example> examples;
  bool inside = false;
  int number = 0;
  for (const std::string& line : lines_of(read(page))) {
    ++number;
    if (line.starts_with("```")) {
      inside = !inside && line == "```sh";
      continue;
    }
    if (!inside) continue;
    if (line.starts_with("$ ")) {
      examples.push_back({number, line.substr(2), {}});
    } else if (!examples.empty() && examples.back().output.empty() &&
               examples.back().command.ends_with('\\')) {
      examples.back().command += "\n" + line;
    } else if (!examples.empty()) {
      examples.back().output.push_back(line);
    }
  }
  for (Example& example : examples)
    while (!example.output.empty() && example.output.back().empty()) example.output.pop_back();
  return examples;
}

std::string quoted(const std::string& text) {
  std::string out = "'";
  for (char c : text) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

std::string run(const std::string& command, const fs::path& folder) {
  const std::string program = mha::test::program_path();
  const std::string shell = "cd " + quoted(folder.string()) +
                            " && exec env -i HOME=/nonexistent LC_ALL=C.UTF-8 COLUMNS=100 PATH=" +
                            quoted(program.substr(0, program.rfind('/')) + ":/usr/bin:/bin") +
                            " sh -c " + quoted("exec 2>&1\n" + command);
  std::FILE* pipe = popen(shell.c_str(), "r");
  REQUIRE(pipe);
  std::string output;
  char buffer[4096];
  while (const std::size_t n = std::fread(buffer, 1, sizeof buffer, pipe)) output.append(buffer, n);
  pclose(pipe);
  return output;
}

/// Whether printed lines are those of the page, "…" standing for any.
bool matches(const std::vector<std::string>& shown, std::size_t i,
             const std::vector<std::string>& printed, std::size_t j) {
  for (; i < shown.size(); ++i, ++j) {
    if (shown[i] == "…") {
      for (std::size_t k = j; k <= printed.size(); ++k)
        if (matches(shown, i + 1, printed, k)) return true;
      return false;
    }
    if (j >= printed.size() || shown[i] != printed[j]) return false;
  }
  return j == printed.size();
}

} // namespace

TEST_CASE("every command of the README and the docs prints what the page shows", "[docs]") {
  const fs::path root = mha::test::source_folder();
  std::vector<fs::path> pages{root / "README.md"};
  for (const auto& entry : fs::directory_iterator(root / "docs"))
    if (entry.path().extension() == ".md") pages.push_back(entry.path());
  std::size_t commands = 0;
  for (const fs::path& page : pages) {
    std::string name = (fs::temp_directory_path() / "mha-docs-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()));
    fs::create_directory_symlink(root / "data", fs::path(name) / "data");
    for (const Example& example : examples_of(page)) {
      if (example.command.starts_with("sh "))
        continue; // the two commands of the README: CI runs them
      ++commands;
      std::vector<std::string> printed = lines_of(run(example.command, name));
      while (!printed.empty() && printed.back().empty()) printed.pop_back();
      std::string text;
      for (const std::string& line : printed) text += line + "\n";
      INFO(page.filename().string()
           << ":" << example.line << ": $ " << example.command << "\nprinted:\n"
           << text);
      CHECK(matches(example.output, 0, printed, 0));
    }
    fs::remove_all(name);
  }
  CHECK(commands > 0);
}
