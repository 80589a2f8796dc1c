// Rules of the house, which no compiler checks: who may include whom (docs/design.md), how long a
// file may be, what lies at the top.

#include "support/places.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace fs = std::filesystem;

namespace {

/// A source file of the project, without its comments.
struct Source {
  std::string path; ///< from the top: "lib/io/npy.cpp"
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
  /// "" for files that lie directly in lib/ or app/.
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

/// Whether `name` is a header of the project that lies in `folder` ("" = directly in lib/).
bool lies_in(const std::string& name, const std::string& folder) {
  const std::size_t slash = name.find('/');
  return folder == (slash == std::string::npos ? "" : name.substr(0, slash));
}

/// What the files of a folder may include of the project, besides the folder's own headers.
struct Rule {
  std::string folder;
  std::vector<std::string> headers; ///< by name
  std::vector<std::string> folders; ///< anything in these
  bool flat = false;                ///< anything directly in lib/
};

} // namespace

TEST_CASE("includes point one way", "[house]") {
  const std::vector<Rule> rules{
      {"kernels", {"error.hpp", "memory.hpp", "tensor.hpp"}, {}},
      {"io", {"error.hpp", "memory_limit.hpp", "tensor.hpp"}, {}},
      {"naming",
       {"assemble.hpp", "fused.hpp", "layer.hpp", "tensor.hpp", "error.hpp", "settings.hpp"},
       {"io"}},
      {"observe", {}, {"io", "kernels"}, true},
      {"ranks", {}, {"io", "kernels", "observe"}, true},
      {"hypotheses", {}, {"observe"}, true},
      {"analysis", {}, {"observe", "kernels", "hypotheses", "ranks"}, true},
      {"render", {}, {"observe", "analysis", "hypotheses"}, true},
  };
  const std::vector<Source> lib = sources_in("lib");
  CHECK(lib.size() > 100);
  for (const Source& source : lib) {
    const auto rule = std::find_if(rules.begin(), rules.end(), [&](const Rule& candidate) {
      return candidate.folder == source.folder();
    });
    if (!source.folder().empty() && rule == rules.end())
      FAIL(source.path << ": a new folder of lib/ needs its rule here");
    if (rule == rules.end()) continue;
    for (const std::string& name : source.includes) {
      if (name[0] == '<' || lies_in(name, rule->folder)) continue;
      const std::string folder = name.substr(0, name.find('/'));
      const bool allowed = one_of(name, rule->headers) || (rule->flat && lies_in(name, "")) ||
                           (name.find('/') != std::string::npos && one_of(folder, rule->folders));
      INFO(source.path << " includes " << name);
      CHECK(allowed);
    }
  }
}

TEST_CASE("the flat files of the library stand in their order", "[house]") {
  // Each may include those before it, and of the folders what is named beside it.
  const std::vector<std::pair<std::string, std::vector<std::string>>> order{
      {"error", {}},
      {"memory", {}},
      {"memory_limit", {}},
      {"tensor", {}},
      {"convert", {"kernels"}}, // of tensors: declared in tensor.hpp
      {"settings", {}},
      {"stage", {}},
      {"tensor_names", {}},
      {"layer", {}},
      {"fingerprint", {}},
      {"graph", {}},
      {"select", {}},
      {"plan", {"kernels"}},
      {"progress", {}},
      {"position", {}},
      {"part", {}},
      {"projection", {"kernels"}},
      {"softmax_block", {"kernels"}},
      {"check_settings", {}},
      {"seconds", {}},
      {"attention", {"kernels"}},
      {"token_stages", {"kernels"}},
      {"fused", {}},
      {"arrange", {}},
      {"assemble", {}},
      {"masks", {}},
      {"sizes", {}},
      {"load", {"io", "naming"}},
      {"model_state", {"naming"}},
      {"choose_layers", {"io", "naming"}},
      {"rearrange", {}},
      {"reference", {"io", "naming"}},
  };
  const auto place = [&](const std::string& stem) {
    const auto found = std::find_if(order.begin(), order.end(),
                                    [&](const auto& entry) { return entry.first == stem; });
    return static_cast<std::size_t>(found - order.begin());
  };
  // The assembly is one thing in several files: these include assemble.hpp, which assemble.cpp
  // uses.
  const std::set<std::pair<std::string, std::string>> also{{"lib/assemble.cpp", "masks"},
                                                           {"lib/attention.cpp", "token_stages"},
                                                           {"lib/projection.cpp", "token_stages"},
                                                           {"lib/load.cpp", "model_state"},
                                                           {"lib/assemble.cpp", "sizes"}};
  for (const Source& source : sources_in("lib")) {
    if (!source.folder().empty()) continue;
    const std::string stem = fs::path(source.path).stem();
    INFO(source.path);
    REQUIRE(place(stem) < order.size()); // a new flat file takes its place in the list
    for (const std::string& name : source.includes) {
      if (name[0] == '<') continue;
      INFO(source.path << " includes " << name);
      if (name.find('/') != std::string::npos)
        CHECK(one_of(name.substr(0, name.find('/')), order[place(stem)].second));
      else if (const std::string other = fs::path(name).stem(); !also.count({source.path, other}))
        CHECK(place(other) <= place(stem));
    }
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

TEST_CASE("MPI stays inside one file", "[house]") {
  for (const char* folder : {"app", "lib"})
    for (const Source& source : sources_in(folder)) {
      INFO(source.path);
      if (source.path != "lib/ranks/mpi.cpp") CHECK_FALSE(source.mentions("MPI_"));
    }
}

TEST_CASE("JSON stays inside the .cpp files of io, render and analysis", "[house]") {
  for (const Source& source : sources_in("lib")) {
    INFO(source.path);
    const bool uses =
        std::any_of(source.includes.begin(), source.includes.end(),
                    [](const std::string& name) { return name.starts_with("<nlohmann/"); });
    if (uses) {
      CHECK_FALSE(source.is_header());
      CHECK(one_of(source.folder(), {"io", "render", "analysis"}));
    }
  }
}

TEST_CASE("the forward pass never sees columns, and arrays of others stay out of headers",
          "[house]") {
  for (const Source& source : sources_in("lib")) {
    INFO(source.path);
    for (const char* file : {"lib/attention.cpp", "lib/softmax_block.cpp", "lib/plan.cpp"})
      if (source.path == file) CHECK_FALSE(source.mentions("columns"));
    if (source.is_header()) {
      CHECK_FALSE(source.mentions("<xtensor/"));
      CHECK_FALSE(source.mentions("dnnl"));
      CHECK(source.mentions("#pragma once"));
    }
  }
}

TEST_CASE("no file is longer than one wants to read", "[house]") {
  constexpr std::size_t longest = 400;
  const std::map<std::string, std::string> reasons{
      {"lib/sizes.cpp", "one class: every size is learned from every tensor, and all must agree"},
  };
  for (const char* folder : {"app", "lib"})
    for (const Source& source : sources_in(folder)) {
      INFO(source.path << " has " << source.lines << " lines");
      CHECK((source.lines <= longest || reasons.count(source.path) == 1));
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
                                      "CMakeLists.txt",
                                      "CMakePresets.json"};
  for (const auto& entry : fs::directory_iterator(mha::test::source_folder())) {
    const std::string name = entry.path().filename();
    if (name.starts_with('.') || name == "build") continue; // dot-files; what a build leaves
    INFO(name);
    CHECK(allowed.count(name) == 1);
  }
}
