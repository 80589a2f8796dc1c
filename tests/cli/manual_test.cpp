// Man pages: valid, complete, and what --help prints.

#include "support/tools.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

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
  const std::string section(1, page.back());
  return words_of(shell("groff -man -Tutf8 -P-c -rHY=0 -rLL=400n share/man/man" + section + "/" +
                            page + " | sed 's/.\x08//g'",
                        {.folder = folder.path()})
                      .out);
}

/// Whether the page has a text; its name alone in the report if not.
bool says(const std::string& page, const std::string& text) {
  return page.find(words_of(text)) != std::string::npos;
}

} // namespace

TEST_CASE("man: a page for the program and one for every command, without a warning") {
  if (!have_tool("groff")) return;
  const Folder folder;
  REQUIRE(run({"help", "--share", folder.path("share")}).code == 0);
  const Result warnings =
      shell("for page in share/man/man?/*; do groff -man -ww -Tutf8 \"$page\" >/dev/null; done",
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
    std::istringstream help(run({name, "--help", "all"}, {.env = {{"COLUMNS", "400"}}}).out);
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

TEST_CASE("man: mandoc finds nothing to warn of in any page") {
  if (!have_tool("mandoc")) return;
  const Folder folder;
  REQUIRE(run({"help", "--share", folder.path("share")}).code == 0);
  const Result lint =
      shell("ls share/man/man?/* | wc -l; mandoc -T lint -W warning share/man/man?/*",
            {.folder = folder.path()});
  CHECK(std::stoi(lint.out) >= 19);
  CHECK(lint.out.substr(lint.out.find('\n') + 1).empty());
  CHECK(lint.code == 0);
}

TEST_CASE("man: mha-inspect-stages(7) and mha-inspect-formats(5) have every row of the tables") {
  if (!have_tool("groff")) return;
  const Folder folder;
  REQUIRE(run({"help", "--share", folder.path("share")}).code == 0);
  const std::string stages_page = rendered(folder, "mha-inspect-stages.7");
  const auto stages = nlohmann::json::parse(run({"stages", "--format", "json"}).out);
  CHECK(stages.size() > 30);
  for (const auto& stage : stages) {
    INFO(stage["name"]);
    CHECK(says(stages_page,
               fmt::format("{} ({})", stage["name"].get<std::string>(),
                           fmt::join(stage["letters"].get<std::vector<std::string>>(), ", "))));
    CHECK(says(stages_page,
               stage["value"].get<std::string>() + ": " + stage["text"].get<std::string>()));
    for (const auto& alias : stage["aliases"]) CHECK(says(stages_page, alias));
  }
  CHECK(says(stages_page, "attn_output head_out or concat or output"));

  const std::string formats_page = rendered(folder, "mha-inspect-formats.5");
  const auto names = nlohmann::json::parse(run({"names", "--format", "json"}).out);
  for (const char* list : {"tensors", "settings"}) {
    CHECK(names[list].size() > 30);
    for (const auto& row : names[list]) {
      INFO(row);
      CHECK(says(formats_page, row["name"]));
      CHECK(says(formats_page, row["text"]));
    }
  }
  for (const char* word : {".npz", ".safetensors", "bfloat16", "X=hidden.npz:layers.{layer}",
                           "q=q.bin:bf16[2,512,12,64]@BTHD", "mha-inspect-stages(7)"})
    CHECK(says(formats_page, word));
}

TEST_CASE("man: a folder that cannot be written is an error") {
  const Result result = run({"help", "--share", "/proc/nowhere"});
  CHECK(result.code == 2);
  CHECK(one_line(result.err));
}
