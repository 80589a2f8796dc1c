// Test cases of all programs of tests, by their names where they are written: what a build leaves
// out is a test, too.

#include "inventory/inventory.hpp"

#include "support/places.hpp"

#include <cctype>
#include <filesystem>
#include <regex>

namespace fs = std::filesystem;

namespace mha::test {

namespace {

void each_file(const std::string& folder, const std::string& extension, const auto& use) {
  for (const auto& entry : fs::recursive_directory_iterator(source_folder() + "/" + folder)) {
    const std::string path = fs::relative(entry.path(), source_folder()).generic_string();
    if (entry.is_regular_file() && path.ends_with(extension)) use(path);
  }
}

/// The text of a literal, and of those that follow it, with their escapes as they are.
std::string literals_at(const std::string& code, std::size_t at) {
  std::string text;
  while (at < code.size() && code[at] == '"') {
    for (++at; at < code.size() && code[at] != '"'; ++at) {
      if (code[at] == '\\') text += code[at++];
      text += code[at];
    }
    for (++at; at < code.size() && std::isspace(static_cast<unsigned char>(code[at])) != 0;) ++at;
  }
  return text;
}

/// The first literal of each macro that makes a test case.
Names cases_of_catch(const std::string& folder) {
  Names names;
  each_file(folder, ".cpp", [&](const std::string& path) {
    const std::string code = "\n" + source_text(path);
    for (const std::string macro : {"TEST_CASE", "TEMPLATE_TEST_CASE", "SCENARIO"})
      for (std::size_t at = 0; (at = code.find("\n" + macro, at)) != code.npos;) {
        at = code.find('(', at) + 1;
        const std::size_t literal = code.find('"', at), end = code.find('{', at);
        if (literal < end) names.insert(literals_at(code, literal));
      }
  });
  return names;
}

/// Whatever a pattern finds first in its line.
Names found(const std::string& folder, const std::string& extension, const std::string& pattern,
            const std::string& of = "") {
  const std::regex what(pattern);
  Names names;
  each_file(folder, extension, [&](const std::string& path) {
    const std::string code = source_text(path);
    std::string of_class;
    for (std::sregex_iterator at(code.begin(), code.end(), what), end; at != end; ++at) {
      if (of.empty()) {
        names.insert((*at)[1]);
      } else if ((*at)[2].matched) {
        of_class = (*at)[2];
      } else {
        names.insert(of_class + "." + (*at)[1].str());
      }
    }
  });
  return names;
}

Names scripts() {
  Names names;
  for (const char* extension : {".py", ".sh", ".mjs"})
    each_file("tests", extension, [&](const std::string& path) { names.insert(path); });
  return names;
}

Names broken_inputs() {
  Names names;
  for (const auto& entry : fs::directory_iterator(source_folder() + "/tests/broken"))
    names.insert(entry.path().filename());
  return names;
}

} // namespace

std::vector<Section> case_sections() {
  return {
      {"test cases of the library", [] { return cases_of_catch("tests/unit"); }},
      {"test cases of the program", [] { return cases_of_catch("tests/cli"); }},
      {"test cases of Python",
       [] {
         return found("tests/python", ".py", R"(\n(?:    def (test_\w+)|class (\w+)))", "class");
       }},
      {"test cases of the page",
       [] { return found("tests/web", ".mjs", R"(\ntest\('([^\n]*?)',)"); }},
      {"test cases of ranks",
       [] { return found("tests/mpi", ".sh", R"(\n *check "([^"\n]+)\")"); }},
      {"scripts of tests", scripts},
      {"broken inputs", broken_inputs},
  };
}

} // namespace mha::test
