// Rules of the house, which no compiler checks: who may include whom (docs/design.md), how long a
// file may be, what is at the top.

#include "support/places.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace fs = std::filesystem;

namespace {

/// A source file of the project, without its comments.
struct Source {
  std::string path; ///< from the top: "lib/formats/npy.cpp"
  std::string code;
  std::vector<std::string> includes; ///< "tensor.hpp", "<vector>"
  std::size_t lines = 0;

  bool is_header() const { return path.ends_with(".hpp"); }
  /// As a word: `puts` is none of `inputs`.
  bool mentions(const std::string& text) const {
    for (std::size_t at = 0; (at = code.find(text, at)) != std::string::npos; ++at)
      if (at == 0 ||
          !(std::isalnum(static_cast<unsigned char>(code[at - 1])) || code[at - 1] == '_'))
        return true;
    return false;
  }
  /// "" for files directly in lib/ or app/.
  std::string folder() const {
    const std::size_t first = path.find('/'), last = path.rfind('/');
    return first == last ? "" : path.substr(first + 1, last - first - 1);
  }
};

Source read(const fs::path& file, const fs::path& root) {
  Source source;
  source.path = fs::relative(file, root).generic_string();
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    ++source.lines;
    const std::size_t comment = line.find("//");
    if (comment != std::string::npos) line.resize(comment);
    source.code += line + "\n";
    if (!line.starts_with("#include ")) continue;
    const std::string name = line.substr(9);
    const std::size_t end = name.find(name[0] == '<' ? '>' : '"', 1);
    source.includes.push_back(name[0] == '<' ? name.substr(0, end + 1) : name.substr(1, end - 1));
  }
  return source;
}

/// Every .cpp and .hpp below a folder of the project.
std::vector<Source> sources_in(const std::string& folder) {
  const fs::path root = mha::test::source_folder();
  std::vector<Source> list;
  for (const auto& entry : fs::recursive_directory_iterator(root / folder))
    if (entry.path().extension() == ".cpp" || entry.path().extension() == ".hpp")
      list.push_back(read(entry.path(), root));
  std::sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
  return list;
}

bool one_of(const std::string& word, const std::vector<std::string>& list) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

/// "load/families" of <mha/load/families/family.hpp>, "" of <mha/mha.hpp>; nothing for other
/// headers.
std::optional<std::string> folder_included(const std::string& name) {
  if (!name.starts_with("<mha/")) return std::nullopt;
  const std::string path = name.substr(5);
  return path.substr(0, path.find('/') == std::string::npos ? 0 : path.rfind('/'));
}

/// What the files of each folder of lib/ may include, besides the folder's own: what, when and how
/// stay apart, and nothing points back (docs/design.md).
const std::map<std::string, std::vector<std::string>> may_include{
    {"", {"system", "tensor", "layer", "naming", "schedule", "textbook"}}, // what programs include
    {"api",
     {"", "system", "tensor", "layer", "naming", "schedule", "forward", "files", "load",
      "load/families", "model", "observe", "heads", "compare", "diagnose"}},
    {"textbook", {"system", "tensor", "layer"}}, // of the library's own computation nothing
    {"system", {}},
    {"tensor", {"system"}},
    {"maths", {}},
    {"layer", {"system", "tensor", "maths"}},
    {"naming", {"system", "tensor", "layer"}},
    {"kernels", {"system", "maths", "kernels/simd"}},
    {"kernels/simd", {"kernels", "maths"}},
    {"schedule", {"system", "tensor", "maths", "layer", "kernels"}},
    {"forward", {"system", "tensor", "maths", "layer", "schedule", "kernels"}},
    {"files", {"system", "tensor"}},
    {"formats", {"system", "tensor", "maths", "files"}},
    {"load",
     {"system", "tensor", "maths", "layer", "naming", "files", "formats", "tokenizers",
      "load/families"}},
    {"tokenizers", {"system", "files", "formats"}},
    {"load/families", {"system", "tensor", "maths", "layer", "naming", "files", "load"}},
    {"model",
     {"system", "tensor", "layer", "naming", "schedule", "kernels", "forward", "files", "formats",
      "load", "load/families", "tokenizers", "observe"}},
    {"observe", {"system", "tensor", "layer", "schedule", "forward", "kernels", "files"}},
    {"ranks", {"system", "layer", "schedule", "forward", "files", "formats", "observe"}},
    {"bench",
     {"system", "tensor", "layer", "schedule", "forward", "kernels", "load", "observe", "ranks",
      "model"}},
    {"heads", {"system", "tensor", "layer", "schedule", "forward", "kernels", "observe", "ranks"}},
    {"circuits", {"system", "tensor", "layer", "schedule", "forward", "kernels", "observe"}},
    {"compare",
     {"", "system", "tensor", "layer", "naming", "schedule", "forward", "files", "formats", "load",
      "load/families", "observe", "model"}},
    {"diagnose",
     {"system", "tensor", "layer", "naming", "schedule", "forward", "observe", "load", "model",
      "compare", "diagnose/hypotheses"}},
    {"diagnose/hypotheses",
     {"system", "tensor", "layer", "naming", "schedule", "forward", "observe", "load"}},
    {"explain", {"system", "tensor", "layer", "naming", "schedule", "forward", "observe"}},
    {"lint", {"system", "tensor", "layer", "schedule", "forward", "load", "observe"}},
    {"report", {"system", "tensor", "layer", "naming", "observe", "heads", "explain"}},
    {"render",
     {"system", "tensor", "layer", "naming", "schedule", "observe", "bench", "heads", "compare",
      "diagnose", "diagnose/hypotheses", "explain", "lint", "report", "model", "circuits"}},
};

} // namespace

TEST_CASE("includes point one way", "[house]") {
  const std::vector<Source> lib = sources_in("lib");
  CHECK(lib.size() > 100);
  for (const Source& source : lib) {
    const auto rule = may_include.find(source.folder());
    if (rule == may_include.end())
      FAIL(source.path << ": a new folder of lib/ needs its line here");
    for (const std::string& name : source.includes) {
      INFO(source.path << " includes " << name);
      CHECK(name[0] == '<'); // one way to include: <mha/…>
      const std::optional<std::string> folder = folder_included(name);
      if (folder && *folder != source.folder()) CHECK(one_of(*folder, rule->second));
    }
  }
}

TEST_CASE("no folder's list points back", "[house]") {
  // Somewhere in what a folder includes, and what that includes, it would come again.
  std::function<bool(const std::string&, const std::string&, std::set<std::string>&)> reaches =
      [&](const std::string& from, const std::string& to, std::set<std::string>& seen) {
        for (const std::string& next : may_include.at(from)) {
          if (next == to) return true;
          if (seen.insert(next).second && reaches(next, to, seen)) return true;
        }
        return false;
      };
  // A folder and its own subfolder are one thing in two rooms.
  for (const auto& [folder, list] : may_include) {
    std::set<std::string> seen;
    const bool back = reaches(folder, folder, seen);
    INFO(folder);
    CHECK((!back || one_of(folder, {"kernels", "kernels/simd", "load", "load/families"})));
  }
}

TEST_CASE("the library throws: it neither prints nor exits nor parses the command line",
          "[house]") {
  for (const Source& source : sources_in("lib")) {
    INFO(source.path);
    for (const std::string& name : source.includes) {
      INFO(name);
      CHECK_FALSE(name.starts_with("<CLI/"));
      CHECK_FALSE(name == "<iostream>");
      CHECK_FALSE(fs::exists(fs::path(mha::test::source_folder()) / "app" / name));
    }
    for (const char* word : {"std::cout", "std::cerr", "fmt::print", "printf(", "puts(", "perror(",
                             "exit(", "abort(", "terminate("})
      if (source.mentions(word)) FAIL_CHECK(source.path << " has " << word);
  }
}

TEST_CASE("no function of the C library decides a bit of a layer", "[house]") {
  const std::regex of_c(R"(std::(exp|exp2|expm1|log|log2|log10|log1p|pow|cbrt|hypot|sin|cos|tan|)"
                        R"(asin|acos|atan|atan2|sinh|cosh|tanh|erf|erfc|tgamma|lgamma)f?\()");
  for (const Source& source : sources_in("lib")) {
    if (!one_of(source.folder(), {"tensor", "maths", "layer", "kernels", "kernels/simd", "schedule",
                                  "forward", "load/families"}) &&
        source.path != "lib/load/buckets.cpp" && source.path != "lib/load/described_tensors.cpp")
      continue;
    INFO(source.path << ": a function of <mha/maths/functions.hpp> has the same bits everywhere");
    CHECK_FALSE(std::regex_search(source.code, of_c));
  }
}

TEST_CASE("who writes through an iterator includes <fmt/format.h>", "[house]") {
  // Clang links `format_to` against no symbol of a libfmt that GCC built: the template must be
  // seen.
  const std::regex through_iterator(R"(fmt::(format_to|format_to_n|formatted_size)\b)");
  std::size_t users = 0;
  for (const char* top : {"lib", "app"})
    for (const Source& source : sources_in(top)) {
      if (!std::regex_search(source.code, through_iterator)) continue;
      ++users;
      INFO(source.path);
      CHECK(one_of("<fmt/format.h>", source.includes));
    }
  CHECK(users > 3);
}

TEST_CASE("a name of another namespace is included by who uses it", "[house]") {
  // Where a folder's files are compiled together, the next file's include would do.
  std::map<std::string, Source> sources;
  for (const char* top : {"lib", "app"})
    for (Source& source : sources_in(top)) sources.emplace(source.path, std::move(source));
  const auto path_of = [&](const Source& from, const std::string& name) -> std::string {
    if (name.starts_with("<mha/")) return "lib/" + name.substr(5, name.size() - 6);
    const std::string beside = from.path.substr(0, from.path.rfind('/') + 1) + name;
    return sources.contains(beside) ? beside : "app/" + name;
  };
  const std::function<void(const Source&, std::set<std::string>&)> reach =
      [&](const Source& source, std::set<std::string>& seen) {
        if (!seen.insert(source.path).second) return;
        for (const std::string& name : source.includes)
          if (const auto next = sources.find(path_of(source, name)); next != sources.end())
            reach(next->second, seen);
      };

  static const std::regex declaration(
      R"((?:(?:struct|class|enum class) (\w+)[^;]* \{|[A-Za-z_][\w:<>,&*\[\] ]*? [&*]?(\w+)\(.*))");
  std::map<std::string, std::set<std::string>> headers_of; // of "io::shown"
  for (const auto& [path, source] : sources) {
    std::istringstream lines(source.code);
    std::string space;
    for (std::string line; source.is_header() && std::getline(lines, line);) {
      std::smatch found;
      if (line.starts_with("namespace mha"))
        space = line.starts_with("namespace mha::") ? line.substr(15, line.size() - 17) : "";
      else if (!space.empty() && std::regex_match(line, found, declaration))
        headers_of[space + "::" + found[1].str() + found[2].str()].insert(path);
    }
  }
  CHECK(headers_of.size() > 500);
  static const std::regex use(R"(\b\w+::\w+\b)");
  for (const auto& [path, source] : sources) {
    std::set<std::string> seen;
    reach(source, seen);
    for (std::sregex_iterator at(source.code.begin(), source.code.end(), use), end; at != end; ++at)
      if (const auto declared = headers_of.find(at->str()); declared != headers_of.end())
        if (std::ranges::none_of(declared->second,
                                 [&](const std::string& header) { return seen.contains(header); }))
          FAIL_CHECK(path << " uses " << at->str() << " of " << *declared->second.begin());
  }
}

TEST_CASE("MPI stays inside one file", "[house]") {
  for (const char* folder : {"app", "lib"})
    for (const Source& source : sources_in(folder)) {
      INFO(source.path);
      if (source.path != "lib/ranks/mpi.cpp") CHECK_FALSE(source.mentions("MPI_"));
    }
}

TEST_CASE("JSON stays inside the .cpp files of formats, load, render and heads", "[house]") {
  for (const Source& source : sources_in("lib")) {
    INFO(source.path);
    const bool uses =
        std::any_of(source.includes.begin(), source.includes.end(),
                    [](const std::string& name) { return name.starts_with("<nlohmann/"); });
    if (uses) {
      CHECK_FALSE(source.is_header());
      // They write trees; what is read goes through the cursor of formats.
      CHECK(one_of(source.folder(), {"load", "render"}));
    }
  }
}

TEST_CASE("xtensor is where it says something shorter, and one unit of lib reads it", "[house]") {
  // docs/design.md has the reason: never in what the library computes with, or in headers that
  // others include.
  const std::vector<std::string> users{"lib/xtensor.hpp", "lib/textbook/arrays.hpp"};
  std::size_t units = 0;
  for (const Source& source : sources_in("lib")) {
    INFO(source.path);
    CHECK(source.mentions("<xtensor/") == one_of(source.path, users));
    if (source.mentions("<mha/xtensor.hpp>") || source.mentions("<mha/textbook.hpp>"))
      units += source.is_header() ? 0 : 1;
  }
  CHECK(units == 1);
}

TEST_CASE("messages of the library speak of settings, not of options", "[house]") {
  // Not where results are written for the command line alone.
  const std::regex option(R"re("(?:[^"\n]*[ (`'};])?--[a-z{])re");
  const std::regex of_program(
      "lib/(bench|circuits|compare|diagnose|explain|heads|lint|render|report)/.*|"
      "lib/system/message.cpp|lib/load/description_schema.cpp");
  for (const Source& source : sources_in("lib")) {
    if (std::regex_match(source.path, of_program)) continue;
    std::istringstream lines(source.code);
    for (std::string line; std::getline(lines, line);) {
      INFO(source.path << ": " << line);
      // An origin that begins with dashes is the command line's own word.
      CHECK((!std::regex_search(line, option) || line.find("starts_with(\"--") != line.npos));
    }
  }
}

TEST_CASE("the forward pass never sees columns", "[house]") {
  for (const Source& source : sources_in("lib")) {
    INFO(source.path);
    for (const char* file :
         {"lib/forward/attention.cpp", "lib/forward/softmax.cpp", "lib/schedule/plan.cpp"})
      if (source.path == file) CHECK_FALSE(source.mentions("columns"));
    if (source.is_header()) CHECK(source.mentions("#pragma once"));
  }
}

TEST_CASE("what is computed at once is a batch, head, block, band or tile: no type says it in "
          "another word",
          "[house]") {
  // The last word of a type's name, in the singular or plural.
  const std::regex type(
      R"(\b(?:struct|class|enum(?: class| struct)?|using) +(\w+)\b(?= *[{:;=]| final))");
  const std::regex subdivision(
      R"(\w*(Unit|Piece|Part|Strip|Cell|Chunk|Segment|Stretch|Span|Run|Slice|Panel|Portion|Section|Fragment|Slab|Stripe)s?)");
  const std::map<std::string, std::string> reasons{
      {"MapPanel", "a picture's panel, as in figures"},
      {"Run", "a model's pass over texts"},
      {"LayerRun", "the same of one layer"},
      {"ValueRuns", "several of them"},
      {"Section", "of the table of stages"},
      {"Cell", "what a row of a table has in a column"},
      {"Slice", "what an observer is shown"},
      {"WordPiece", "a tokenizer's name"}};
  std::size_t types = 0;
  for (const Source& source : sources_in("lib")) {
    if (source.folder().starts_with("kernels")) continue; // the machine's own words
    for (std::sregex_iterator it(source.code.begin(), source.code.end(), type), end; it != end;
         ++it) {
      const std::string name = (*it)[1];
      ++types;
      INFO(source.path << ": " << name);
      CHECK((!std::regex_match(name, subdivision) || reasons.count(name) == 1));
    }
  }
  CHECK(types > 200);
}

TEST_CASE("formulas know no threads, files, routines' insides or observers", "[house]") {
  for (const Source& source : sources_in("lib")) {
    if (source.folder() != "forward") continue;
    for (const std::string& name : source.includes) {
      INFO(source.path << " includes " << name);
      for (const char* hidden :
           {"parallel", "<thread>", "<mutex>", "<atomic>", "/tiles.hpp", "/meter.hpp", "/watch.hpp",
            "/files/", "/formats/", "/simd/", "_kernels.hpp", "dispatch"})
        CHECK(name.find(hidden) == std::string::npos);
    }
  }
  for (const char* file : {"lib/forward/attention.cpp", "lib/forward/softmax.cpp"}) {
    const Source source =
        read(fs::path(mha::test::source_folder()) / file, mha::test::source_folder());
    INFO(file);
    for (const char* word : {"thread_", "tile", "Tile", "meter", "has_given", "computes(", "wants(",
                             "release", "bf16x3", "observe("})
      CHECK_FALSE(source.mentions(word));
  }
}

TEST_CASE("functions fit a screen", "[house]") {
  constexpr std::size_t longest = 60, longest_pass = 120; // attention() is the pass itself
  const std::regex type("(template <.*> )?(namespace|struct|class|enum|union)\\b.*");
  std::size_t functions = 0;
  for (const char* folder : {"app", "lib"})
    for (const Source& source : sources_in(folder)) {
      std::istringstream lines(source.code);
      std::string first;
      std::size_t length = 0;
      for (std::string line; std::getline(lines, line);) {
        const bool at_start = !line.empty() && line[0] != ' ' && line[0] != '#' && line[0] != '}';
        if (length == 0 && at_start && !std::regex_match(line, type))
          if (line.find('(') != std::string::npos || line.starts_with("template"))
            first.assign(line), length = 1;
        if (length > 0 && line == "}") {
          INFO(source.path << ": " << first << " has " << length << " lines");
          CHECK(length <=
                (first.find("void attention(") != std::string::npos ? longest_pass : longest));
          ++functions;
        }
        if (length > 0) ++length;
        if (line == "}" || line == "};" || (length > 0 && line.ends_with(';') && line[0] != ' '))
          length = 0;
      }
    }
  CHECK(functions > 2000);
}

TEST_CASE("a header says in its first words what it holds, not that it says it", "[house]") {
  for (const char* folder : {"app", "lib"})
    for (const Source& source : sources_in(folder)) {
      if (!source.is_header()) continue;
      std::ifstream file(fs::path(mha::test::source_folder()) / source.path);
      std::string pragma, words;
      std::getline(file, pragma), std::getline(file, words);
      INFO(source.path << ": " << words);
      for (const char* word : {"// What ", "// Who ", "// How ", "// Where ", "// Why "})
        CHECK_FALSE(words.starts_with(word));
    }
}

TEST_CASE("a name of a type is one type's in all headers", "[house]") {
  // Two of one name in one namespace break the rule of one definition: linked into one program, the
  // one's copies and destructors are run for the other, and no compiler sees both.
  static const std::regex opened(R"(namespace ([\w:]+) \{)"),
      defined(R"((?:template .*)?(?:struct|class|enum class) (\w+)(?: final)?(?: :.*| \{.*)?)");
  std::map<std::string, std::string> headers; // of each type
  for (const Source& source : sources_in("lib")) {
    if (!source.is_header()) continue;
    std::string space;
    bool hidden = false;
    std::istringstream code(source.code);
    for (std::string line; std::getline(code, line);) {
      std::smatch match;
      hidden = hidden || line == "namespace {";
      if (std::regex_match(line, match, opened)) space = match[1];
      if (hidden || !std::regex_match(line, match, defined)) continue;
      const auto [known, is_new] = headers.emplace(space + "::" + match[1].str(), source.path);
      INFO(known->first << " in " << known->second << " and " << source.path);
      CHECK((is_new || known->second == source.path));
    }
  }
  CHECK(headers.size() > 500);
}

TEST_CASE("no file is longer than one wants to read", "[house]") {
  constexpr std::size_t longest = 400;
  for (const char* folder : {"app", "lib"})
    for (const Source& source : sources_in(folder)) {
      INFO(source.path << " has " << source.lines << " lines");
      CHECK(source.lines <= longest);
    }
}

TEST_CASE("the top of the project holds what the design names", "[house]") {
  const std::set<std::string> allowed{"app",
                                      "lib",
                                      "tests",
                                      "data",
                                      "docs",
                                      "LICENSE",
                                      "README.md",
                                      "CHANGELOG.md",
                                      "CONTRIBUTING.md",
                                      "CITATION.cff",
                                      "CMakeLists.txt",
                                      "CMakePresets.json"};
  for (const auto& entry : fs::directory_iterator(mha::test::source_folder())) {
    const std::string name = entry.path().filename();
    if (name.starts_with('.') || name == "build") continue; // dot-files; what a build leaves
    INFO(name);
    CHECK(allowed.count(name) == 1);
  }
}
