// What a public repository has beside its code states nothing that is not so.

#include "support/places.hpp"
#include "support/tools.hpp"

#include <filesystem>
#include <fstream>
#include <regex>
#include <string>

namespace fs = std::filesystem;

namespace {

std::string text_of(const std::string& name) {
  std::ifstream file(fs::path(mha::test::source_folder()) / name);
  INFO(name);
  REQUIRE(file);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string first_match(const std::string& text, const std::string& pattern) {
  std::smatch match;
  REQUIRE(std::regex_search(text, match, std::regex(pattern)));
  return match[1];
}

} // namespace

TEST_CASE("paths that CONTRIBUTING.md names are there", "[house]") {
  const std::string page = text_of("CONTRIBUTING.md");
  const std::regex path(R"((?:app|lib|tests|docs)/[\w./-]*[\w/])");
  std::size_t paths = 0;
  for (std::sregex_iterator it(page.begin(), page.end(), path), end; it != end; ++it, ++paths) {
    const std::string name = it->str();
    if (it->prefix().str().ends_with("build/dev/")) continue; // a program of the build
    INFO(name);
    CHECK(fs::exists(fs::path(mha::test::source_folder()) / name));
  }
  CHECK(paths > 30);
}

TEST_CASE("one version in the build, the changelog, the citation and the Debian packages",
          "[house]") {
  const std::string version =
      first_match(text_of("CMakeLists.txt"), R"(project\(mha-inspect VERSION (\S+))");
  const std::string changelog = text_of("CHANGELOG.md");
  CHECK(changelog.find("## [Unreleased]") != std::string::npos);
  CHECK(first_match(changelog, R"(## \[(\d+\.\d+\.\d+)\] - \d{4}-\d{2}-\d{2}\n)") == version);
  const std::string date = first_match(changelog, R"(## \[\d+\.\d+\.\d+\] - (\S+))");
  const std::string citation = text_of("CITATION.cff");
  CHECK(first_match(citation, R"(\nversion: (\S+))") == version);
  CHECK(first_match(citation, R"(\ndate-released: (\S+))") == date);
  CHECK(first_match(text_of("app/deb/changelog"), R"(^mha-inspect \(([^)]+)\))") == version);
}

TEST_CASE("the API page is made of the stable headers without a warning, and has all of them",
          "[house]") {
  if (!mha::test::have_tool("doxygen")) return;
  const mha::test::Folder folder;
  const mha::test::Result made = mha::test::shell(
      "(cat docs/Doxyfile && echo \"OUTPUT_DIRECTORY = " + folder.path() + "\") | doxygen -",
      {.folder = mha::test::source_folder()});
  INFO(made.err);
  CHECK(made.code == 0);
  CHECK(made.err.empty());
  CHECK(folder.has("html/index.html"));
  // What docs/library.md declares stable is what the page is made of.
  const std::string guide = text_of("docs/library.md"), doxyfile = text_of("docs/Doxyfile");
  const std::regex header(R"(`mha/([\w/]+\.hpp)`)");
  std::size_t headers = 0;
  const std::string table = guide.substr(guide.find("| `mha/mha.hpp`"));
  const std::string rows = table.substr(0, table.find("\n\n"));
  for (std::sregex_iterator it(rows.begin(), rows.end(), header), end; it != end; ++it, ++headers) {
    INFO((*it)[1]);
    CHECK(doxyfile.find("lib/" + (*it)[1].str()) != std::string::npos);
  }
  CHECK(headers >= 9);
}
