// Fields of results: those of docs/machine.md, which a test holds against what the commands print;
// keys of descriptions; names in the files that `dump` writes; what the page of `report` is given.

#include "inventory/inventory.hpp"

#include "support/places.hpp"
#include "support/run.hpp"
#include <mha/formats/formats.hpp>
#include <mha/system/error.hpp>
#include <mha/system/words.hpp>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

namespace mha::test {

namespace {

using nlohmann::json;

/// "stats --spread -f json" of a whole command line: its command, its options, its form.
/// Options as they were called when base.json was written.
std::string former_options(std::string line) {
  for (const auto& [now, then] :
       {std::pair(" --query all", " --all"), {" --measures all", " --all"}})
    if (const std::size_t at = line.find(now); at != line.npos)
      line.replace(at, std::string_view(now).size(), then);
  return line;
}

std::string kind_of_command(const std::string& line) {
  std::string kind;
  std::string form;
  for (const std::string& word : words_of<std::string>(line, " ")) {
    if (kind.empty() || (word[0] == '-' && word != "-f")) kind += (kind.empty() ? "" : " ") + word;
    form = word; // the last word
  }
  return kind + " -f " + form;
}

/// "stats --all -f csv: entropy is number or null".
Names documented_fields() {
  std::istringstream page(source_text("docs/machine.md"));
  Names names;
  std::vector<std::string> kinds;
  bool inside = false;
  for (std::string line; std::getline(page, line);) {
    constexpr std::string_view begins = "    mha-inspect ";
    if (line.starts_with(begins)) {
      if (inside) kinds.clear(), inside = false;
      kinds.push_back(kind_of_command(former_options(line.substr(begins.size()))));
    }
    if (!line.starts_with("| `")) continue;
    inside = true;
    const std::size_t end = line.find("` | "), type = end + 4, after = line.find(" | ", type);
    if (end == line.npos || after == line.npos) fail("docs/machine.md: a row without a type");
    for (const std::string& kind : kinds)
      names.insert(kind + ": " + line.substr(3, end - 3) + " is " +
                   line.substr(type, after - type));
  }
  return names;
}

std::string printed(const std::vector<std::string>& words) {
  const Result result = run(words);
  if (result.code != 0) fail("{}: {}", words.front(), result.err);
  return result.out;
}

/// Properties of a schema by their paths, and the words that they may be.
void add_properties(const json& schema, const std::string& path, Names& names) {
  if (schema.is_array())
    for (const json& one : schema) add_properties(one, path, names);
  if (!schema.is_object()) return;
  for (const auto& [key, value] : schema.items()) {
    if (key == "properties" && value.is_object()) {
      for (const auto& [name, property] : value.items()) {
        const std::string whole = path + (path.empty() ? "" : ".") + name;
        names.insert(whole);
        add_properties(property, whole, names);
      }
    } else if (key == "enum" && value.is_array()) {
      for (const json& word : value) names.insert(path + " = " + word.dump());
    } else {
      add_properties(value, path, names);
    }
  }
}
Names description_keys() {
  Names names;
  add_properties(json::parse(printed({"info", "--schema"})), "", names);
  return names;
}

/// A layer alone, and a model's layers.
const std::vector<std::vector<std::string>>& shown() {
  static const std::vector<std::vector<std::string>> all{
      {"data/quickstart.json"},
      {"data/induction-model", "--ids", "1,2,3", "--layer", "all"},
      {"data/bard-llama", "--text", "To be", "--layer", "1"}};
  return all;
}
std::string first_of(const std::vector<std::string>& words) {
  return words.front().substr(words.front().rfind('/') + 1);
}

Names dumped_names() {
  Names names;
  const Folder folder;
  for (const std::vector<std::string>& source : shown())
    for (const char* extension : {"npz", "safetensors", "json"}) {
      const std::string path = folder.path(first_of(source) + "." + extension);
      std::vector<std::string> words{"dump"};
      words.insert(words.end(), source.begin(), source.end());
      words.insert(words.end(), {"-q", "-o", path});
      printed(words);
      const io::Contents contents = io::open(path);
      const std::string before = first_of(source) + " as " + extension + ": ";
      for (const io::Entry& entry : contents.tensors) names.insert(before + entry.name);
      for (const auto& [name, value] : contents.scalars) names.insert(before + name + ", a value");
      for (const auto& [name, values] : contents.labels) names.insert(before + name + ", labels");
    }
  return names;
}

/// Members of the page's data by their paths; what has a stage's, a head's or a token's name alike.
void add_members(const json& value, const std::string& path, Names& names) {
  if (value.is_array()) {
    for (const json& one : value) add_members(one, path + "[]", names);
  } else if (value.is_object()) {
    for (const auto& [key, member] : value.items()) {
      const std::string whole = path + (path.empty() ? "" : ".") + key;
      names.insert(whole);
      add_members(member, whole, names);
    }
  }
}

/// Identifiers of the page's elements, and the members of what its scripts read.
Names page_names() {
  static const std::regex id(R"x(\bid="([A-Za-z_-]+)")x"),
      data(R"x(<script[^>]*type="application/json"[^>]*>([^<]*)</script>)x");
  Names names;
  const Folder folder;
  for (const std::vector<std::string>& source : shown()) {
    const std::string name = first_of(source) + ".html";
    std::vector<std::string> words{"report"};
    words.insert(words.end(), source.begin(), source.end());
    words.insert(words.end(), {"-q", "-o", folder.path(name)});
    printed(words);
    const std::string page = folder.read(name);
    for (std::sregex_iterator at(page.begin(), page.end(), id), end; at != end; ++at)
      names.insert("#" + (*at)[1].str());
    for (std::size_t at = 0; (at = page.find("type=\"application/json\"", at)) != page.npos;) {
      const std::size_t first = page.find('>', at) + 1, last = page.find("</script>", first);
      add_members(json::parse(page.substr(first, last - first)), "", names);
      at = last;
    }
  }
  return names;
}

} // namespace

std::vector<Section> result_sections() {
  return {
      {"fields of results", documented_fields},
      {"keys of descriptions", description_keys},
      {"names in dumped files", dumped_names},
      {"page of report", page_names},
  };
}

} // namespace mha::test
