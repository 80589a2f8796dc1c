// What the program prints of itself: commands, options, the words that an option may be, what
// shells complete, pages of the manual.

#include "inventory/inventory.hpp"

#include "support/places.hpp"
#include "support/run.hpp"
#include <mha/system/error.hpp>
#include <mha/system/words.hpp>

#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <sstream>

namespace mha::test {

namespace {

/// Wide enough that no text is broken.
Setting wide() {
  Setting setting;
  setting.env["COLUMNS"] = "5000";
  return setting;
}

std::string said_by(const std::vector<std::string>& words) {
  const Result result = run(words, wide());
  if (result.code != 0) fail("{}: {}", words.front(), result.err);
  return result.out;
}

Names commands() {
  std::istringstream text(said_by({"--help"}));
  Names names;
  std::string line;
  while (std::getline(text, line) && line != "Commands") {
  }
  while (std::getline(text, line) && line.starts_with("  "))
    if (const std::string name = line.substr(2, line.find(' ', 2) - 2); !name.empty())
      names.insert(name);
  return names;
}

/// One option of a command's whole help.
struct HelpOption {
  std::string command, letter, name, off, value, text, group;
};

/// Read once: nineteen runs of the program.
const std::vector<HelpOption>& options() {
  static const std::vector<HelpOption> all = [] {
    static const std::regex head(
        R"(^  (?:(-\w), |    )(--[\w-]+)(?:, (--no-[\w-]+))?(?: (\S+(?: \S+)*))?(?:  +(.*))?$)");
    std::vector<HelpOption> list;
    for (const std::string& command : commands()) {
      std::istringstream text(said_by({command, "--help", "all"}));
      std::string group;
      for (std::string line; std::getline(text, line);) {
        std::smatch found;
        if (std::regex_match(line, found, head))
          list.push_back({command, found[1], found[2], found[3], found[4], found[5], group});
        else if (!line.empty() && line[0] != ' ')
          group = line;
      }
    }
    return list;
  }();
  return all;
}

Names option_names() {
  Names names;
  for (const HelpOption& option : options())
    for (const std::string& name : {option.letter, option.name, option.off})
      if (!name.empty()) names.insert(option.command + " " + name);
  return names;
}
Names option_values() {
  Names names;
  for (const HelpOption& option : options())
    if (!option.value.empty())
      names.insert(option.command + " " + option.name + " " + option.value);
  return names;
}
/// "show --format csv": the words that the help has in an option's place of the value.
Names choices() {
  Names names;
  for (const HelpOption& option : options())
    for (const std::string& word : words_of<std::string>(option.value, "|"))
      if (!word.empty() && std::islower(static_cast<unsigned char>(word[0])) != 0)
        names.insert(option.command + " " + option.name + " " + word);
  return names;
}
Names headings() {
  Names names;
  for (const HelpOption& option : options()) names.insert(option.command + ": " + option.group);
  return names;
}

/// What `help --share` writes: man pages and completions of shells.
const std::map<std::string, std::string>& shared_files() {
  static const std::map<std::string, std::string> all = [] {
    const Folder folder;
    said_by({"help", "--share", folder.path()});
    std::map<std::string, std::string> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path()))
      if (entry.is_regular_file()) {
        std::ifstream file(entry.path());
        files[std::filesystem::relative(entry.path(), folder.path()).generic_string()] = {
            std::istreambuf_iterator<char>(file), {}};
      }
    return files;
  }();
  return all;
}
Names shared_names() {
  Names names;
  for (const auto& [name, text] : shared_files()) names.insert(name);
  return names;
}
/// Headings, and the terms of lists. Of a command's page headings alone: its options are those of
/// its help.
Names manual_entries() {
  static const std::regex line(R"(\n\.(?:SH|SS) ([^\n]+))"), term(R"(\n\.TP\n([^\n]+))"),
      dash(R"(\\-)"), quote(R"(\\\(aq)"), font(R"(\\f[A-Z]|\\&|"|^\.[BI]R? )");
  Names names;
  for (const auto& file : shared_files()) {
    if (file.first.find("man/") == std::string::npos) continue;
    const std::string page = std::filesystem::path(file.first).filename(), &text = file.second;
    const bool of_command = page.ends_with(".1") && page != "mha-inspect.1";
    const auto add = [&](const std::regex& what, const std::string& before) {
      for (std::sregex_iterator at(text.begin(), text.end(), what), end; at != end; ++at)
        names.insert(
            page + ": " + before +
            std::regex_replace(
                std::regex_replace(std::regex_replace((*at)[1].str(), dash, "-"), quote, "'"), font,
                ""));
    };
    add(line, "# ");
    if (!of_command) add(term, "");
  }
  return names;
}

/// "show --stage rollout": words that shells offer and the help does not list; "stages: weights" of
/// those that several options share.
Names completed_words() {
  static const std::regex command(R"(^    ([a-z]+)\)$)"),
      branch(R"(^        (\S+)\) offer=\w+ words='([^']*)' ;;$)"),
      shared(R"(^  local (stages|commands)='([^']*)'$)"),
      positional(R"(^      offer=words words='([^']*)'$)");
  const Names listed = choices();
  Names names;
  std::istringstream script(shared_files().at("bash-completion/completions/mha-inspect"));
  std::string of;
  for (std::string text; std::getline(script, text);) {
    std::smatch found;
    const auto add = [&](const std::string& before, const std::string& list) {
      for (const std::string& word : words_of<std::string>(list))
        if (!listed.contains(before + " " + word)) names.insert(before + " " + word);
    };
    if (std::regex_match(text, found, shared)) add(found[1].str() + ":", found[2]);
    if (std::regex_match(text, found, command)) of = found[1];
    if (std::regex_match(text, found, positional)) add(of, found[1]);
    if (!std::regex_match(text, found, branch)) continue;
    for (const std::string& option : words_of<std::string>(found[1].str(), "|"))
      if (option.starts_with("--")) add(of + " " + option, found[2]);
  }
  return names;
}

} // namespace

std::vector<Section> program_sections() {
  return {
      {"commands", commands},
      {"options", option_names},
      {"values of options", option_values},
      {"choices", choices},
      {"headings of options", headings},
      {"files of help --share", shared_names},
      {"entries of manual pages", manual_entries},
      {"words that shells complete", completed_words},
  };
}

} // namespace mha::test
