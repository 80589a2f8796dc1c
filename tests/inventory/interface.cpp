// Names for programs: what the library's archive exports, what its installed headers declare, what
// the Python package has; environment variables; what a build can be asked.

#include "inventory/headers.hpp"
#include "inventory/inventory.hpp"

#include "support/places.hpp"
#include "support/run.hpp"
#include <mha/system/error.hpp>
#include <mha/system/words.hpp>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <sstream>

namespace mha::test {

namespace {

Names lines_of(const std::string& command) {
  const Result done = shell(command, {.folder = source_folder()});
  if (done.code != 0) fail("{}: {}", command, done.err);
  Names names;
  std::istringstream text(done.out);
  for (std::string line; std::getline(text, line);)
    if (!line.empty()) names.insert(line);
  return names;
}

/// "mha/layer/layer.hpp": what `cmake --install` puts where programs find it.
std::vector<std::string> installed_headers() {
  static const std::regex list(R"(foreach\(header\s+([^)]*)\))");
  const std::string build = source_text("lib/CMakeLists.txt");
  std::smatch found;
  if (!std::regex_search(build, found, list)) fail("lib/CMakeLists.txt installs no header");
  std::vector<std::string> headers;
  for (const std::string& name : words_of<std::string>(found[1].str(), " \n"))
    headers.push_back(name + ".hpp");
  return headers;
}

Names headers() {
  Names names;
  for (const std::string& header : installed_headers()) names.insert("mha/" + header);
  return names;
}

Names declared() {
  Names names;
  for (const std::string& header : installed_headers())
    names.merge(declared_names(source_text("lib/" + header)));
  std::erase_if(names, [](const std::string& name) { return !name.starts_with("mha::"); });
  return names;
}

/// Functions with their parameters, as the linker sees them, where a header declares them. Inline
/// ones are of the headers alone.
Names exported_functions() {
  const Names known = declared();
  Names names = lines_of("readelf -sW '" + build_folder() +
                         "/lib/libmha.a' | awk '$5 == \"GLOBAL\" && $6 == \"DEFAULT\" && $7 != "
                         "\"UND\" { print $8 }' | c++filt | grep '^mha::'");
  std::erase_if(names, [&](const std::string& function) {
    std::string name = function.substr(0, function.find('('));
    if (const std::size_t tag = name.find("[abi:"); tag != name.npos) name.resize(tag);
    return !known.contains(name);
  });
  return names;
}

/// The capital words that stand as the first literal of a call of one of these functions.
Names asked_for(const std::vector<std::string>& folders, const std::vector<std::string>& endings,
                const std::vector<std::string>& calls) {
  Names names;
  for (const std::string& folder : folders)
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(source_folder() + "/" + folder)) {
      if (!entry.is_regular_file() ||
          std::ranges::find(endings, entry.path().extension().string()) == endings.end())
        continue;
      const std::string code =
          source_text(std::filesystem::relative(entry.path(), source_folder()));
      for (const std::string& call : calls)
        for (std::size_t at = 0; (at = code.find(call, at)) != code.npos;) {
          at += call.size();
          const std::string word = code.substr(at, code.find('"', at) - at);
          if (word.size() > 3 &&
              word.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789") == word.npos)
            names.insert(word);
        }
    }
  return names;
}

Names build_options() {
  static const std::regex option(R"((?:option|set)\((MHA_\w+|BUILD_\w+) (?:"|\S+ CACHE))"),
      preset(R"x("name": "([^"]+)")x");
  Names names;
  const std::string build = source_text("CMakeLists.txt"),
                    presets = source_text("CMakePresets.json");
  for (std::sregex_iterator at(build.begin(), build.end(), option), end; at != end; ++at)
    names.insert((*at)[1]);
  for (std::sregex_iterator at(presets.begin(), presets.end(), preset), end; at != end; ++at)
    names.insert("preset " + (*at)[1].str());
  return names;
}

Names pages() {
  Names names;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(source_folder() + "/docs"))
    if (entry.is_regular_file())
      names.insert(std::filesystem::relative(entry.path(), source_folder()).generic_string());
  return names;
}

} // namespace

std::vector<Section> interface_sections() {
  return {
      {"functions of the C++ library", exported_functions},
      {"headers of the C++ library", headers},
      {"names in headers of the C++ library", declared},
      {"names of the Python package",
       [] { return lines_of("/usr/bin/python3 tests/inventory/python_names.py app/python/mha"); }},
      {"environment variables",
       [] {
         return asked_for({"lib", "app"}, {".cpp", ".hpp"}, {"getenv(\"", "is_set(\"", "is(\""});
       }},
      {"environment variables of tests",
       [] {
         return asked_for({"tests"}, {".cpp", ".hpp", ".py"},
                          {"getenv(\"", "environ[\"", "environ.get(\""});
       }},
      {"options of the build", build_options},
      {"pages of docs", pages},
  };
}

} // namespace mha::test
