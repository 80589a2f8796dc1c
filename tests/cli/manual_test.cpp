// Man pages: valid, complete, and what --help says.

#include "support/tools.hpp"

#include <sstream>

using namespace mha::test;
using Catch::Contains;

namespace {

/// Words with one space between them.
std::string words_of(const std::string& text) {
  std::istringstream stream(text);
  std::string words;
  for (std::string word; stream >> word;) words += (words.empty() ? "" : " ") + word;
  return words;
}

/// A page as a reader sees it, without bold and breaks.
std::string rendered(const Folder& folder, const std::string& page) {
  return words_of(shell("groff -man -Tutf8 -P-c -rHY=0 -rLL=400n share/man/man1/" + page +
                            " | sed 's/.\x08//g'",
                        {.folder = folder.path()})
                      .out);
}

/// Whether the page says something; its name alone in the report if not.
bool says(const std::string& page, const std::string& text) {
  return page.find(words_of(text)) != std::string::npos;
}

} // namespace

TEST_CASE("man: a page for the program and one for every command, without a warning") {
  if (!have_tool("groff")) return;
  const Folder folder;
  REQUIRE(run({"help", "--share", folder.path("share")}).code == 0);
  const Result warnings =
      shell("for page in share/man/man1/*.1; do groff -man -ww -Tutf8 \"$page\" >/dev/null; done",
            {.folder = folder.path()});
  CHECK(warnings.err.empty());
  const std::string program = rendered(folder, "mha-inspect.1");
  CHECK_THAT(program, Contains("every step of multi-head attention") && Contains("NO_COLOR"));

  std::istringstream text(run({"--help"}).out);
  std::string line;
  while (std::getline(text, line) && line != "Commands") {
  }
  int pages = 0;
  for (; std::getline(text, line) && line.starts_with("  "); ++pages) {
    const std::string name = line.substr(2, line.find(' ', 2) - 2);
    if (name.empty()) continue;
    const std::string page = rendered(folder, "mha-inspect-" + name + ".1");
    CHECK(says(program, name));
    CHECK(says(page, "mha-inspect " + name));
    CHECK(says(page, "EXIT STATUS"));
    // Every option and example of --help stands in the page.
    std::istringstream help(run({name, "--help"}, {.env = {{"COLUMNS", "400"}}}).out);
    while (std::getline(help, line)) {
      INFO(name << ": " << line);
      if (line.starts_with("  mha-inspect ")) CHECK(says(page, line));
      const std::size_t at = line.find("--");
      if (!line.starts_with("  ") || at == std::string::npos || at > 6) continue;
      const std::size_t gap = std::min(line.find("  ", at), line.size());
      CHECK(says(page, line.substr(at, gap - at)));
      CHECK(says(page, line.substr(gap)));
    }
  }
  CHECK(pages >= 8);
}

TEST_CASE("man: a folder that cannot be written is an error") {
  const Result result = run({"help", "--share", "/proc/nowhere"});
  CHECK(result.code == 2);
  CHECK(one_line(result.err));
}
