// What there was when the inventory was written is still there, or tests/inventory/gone.tsv
// explains why it is not.

#include "inventory/inventory.hpp"
#include "support/run.hpp"
#include <mha/system/words.hpp>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

using namespace mha::test;

namespace {

using Entries = std::map<std::string, std::vector<std::string>>; ///< by section

/// What is not there any more: a line of gone.tsv.
struct Gone {
  std::string section, entry, reason, replacement;
};

Entries entries_of(const std::string& json) {
  return nlohmann::json::parse(json).get<Entries>();
}

std::vector<Gone> gone_of(const std::string& table) {
  std::vector<Gone> rows;
  std::istringstream lines(table);
  std::string line;
  std::getline(lines, line); // the titles
  while (std::getline(lines, line)) {
    std::vector<std::string_view> cells = mha::split_at(line, '\t');
    cells.resize(4);
    rows.push_back({std::string(cells[0]), std::string(cells[1]), std::string(cells[2]),
                    std::string(cells[3])});
  }
  return rows;
}

bool is_of_cases(const std::string& section) {
  return section.starts_with("test cases");
}

/// Sections by name, each collected once, when it is asked for.
class Present {
public:
  explicit Present(const std::vector<Section>& sections) {
    for (const Section& section : sections) sections_[section.name] = section;
  }
  bool knows(const std::string& section) const { return sections_.contains(section); }
  bool has(const std::string& section, const std::string& entry) {
    const auto found = sections_.find(section);
    if (found == sections_.end()) return false;
    if (found->second.holds) return found->second.holds(entry);
    const auto [names, is_new] = names_.try_emplace(section);
    if (is_new) names->second = found->second.collect();
    return names->second.contains(entry);
  }
  bool has_case(const std::string& name) {
    for (const auto& [section, made] : sections_)
      if (is_of_cases(section) && has(section, name)) return true;
    return false;
  }

private:
  std::map<std::string, Section> sections_;
  std::map<std::string, Names> names_;
};

/// One text for each thing that is wrong.
std::vector<std::string> complaints(const Entries& base, const std::vector<Gone>& gone,
                                    const std::vector<Section>& sections) {
  Present present(sections);
  std::vector<std::string> texts;
  std::map<std::string, std::map<std::string, bool>> rows; // whether base.json has it
  for (const Gone& row : gone) {
    const std::string what = "gone.tsv: " + row.section + ": " + row.entry;
    if (!rows[row.section].emplace(row.entry, false).second) texts.push_back(what + ": twice");
    if (row.reason.empty() || row.replacement.empty())
      texts.push_back(what + ": a reason and a replacement expected");
    else if (is_of_cases(row.section) && !present.has_case(row.replacement))
      texts.push_back(what + ": no test case is called '" + row.replacement + "'");
  }
  for (const auto& [section, entries] : base) {
    if (!present.knows(section)) texts.push_back(section + ": nothing collects this section");
    for (const std::string& entry : entries) {
      const auto row = rows[section].find(entry);
      const bool is_gone = row != rows[section].end(), is_there = present.has(section, entry);
      if (is_gone) row->second = true;
      if (is_gone && is_there)
        texts.push_back("gone.tsv: " + section + ": " + entry + ": it is still there");
      if (!is_gone && !is_there)
        texts.push_back(section + ": " + entry + ": not there any more; gone.tsv does not say why");
    }
  }
  for (const auto& [section, entries] : rows)
    for (const auto& [entry, in_base] : entries)
      if (!in_base) texts.push_back("gone.tsv: " + section + ": " + entry + ": never in base.json");
  return texts;
}

} // namespace

TEST_CASE("inventory: what was there is there, or gone.tsv says why not", "[inventory]") {
  const Entries base = entries_of(source_text("tests/inventory/base.json"));
  for (const std::string& text :
       complaints(base, gone_of(source_text("tests/inventory/gone.tsv")), inventory()))
    FAIL_CHECK(text);
}

TEST_CASE("inventory: an entry that goes unsaid is named, and so is a row that is not so",
          "[inventory]") {
  const std::vector<Section> now{
      {"options",
       [] {
         return Names{"show --stage", "show --new"};
       }},
      {"test cases of x", [] { return Names{"a case"}; }},
      asked(
          "aliases", [] { return Names{"pattern"}; },
          [](const std::string& name) { return name == "pattern" ? "weights" : ""; })};
  const Entries base{{"aliases", {"attn is q", "pattern is weights"}},
                     {"options", {"show --old", "show --stage"}},
                     {"test cases of x", {"an old case"}}};
  using Texts = std::vector<std::string>;
  const std::string case_row = "test cases of x\tan old case\tits mechanism went\ta case\n",
                    rows = "section\tentry\treason\treplacement\n"
                           "aliases\tattn is q\tit meant two things\tnone\n"
                           "options\tshow --old\tit did nothing\t--new\n";
  CHECK(complaints(base, gone_of(rows + case_row), now) == Texts{});
  CHECK(complaints(base, gone_of(rows), now) ==
        Texts{"test cases of x: an old case: not there any more; gone.tsv does not say why"});
  CHECK(complaints(base, {}, now).size() == 3);
  CHECK(complaints(base, gone_of(rows + case_row + "options\tshow --stage\tx\ty\n"), now) ==
        Texts{"gone.tsv: options: show --stage: it is still there"});
  CHECK(complaints(base, gone_of(rows + case_row + "options\tshow --none\tx\ty\n"), now) ==
        Texts{"gone.tsv: options: show --none: never in base.json"});
  CHECK(complaints(base, gone_of(rows + "test cases of x\tan old case\tx\tno case\n"), now) ==
        Texts{"gone.tsv: test cases of x: an old case: no test case is called 'no case'"});
  CHECK(complaints(base, gone_of(rows + case_row + "options\tshow --old\tx\ty\n"), now) ==
        Texts{"gone.tsv: options: show --old: twice"});
  CHECK(complaints({{"options", {}}}, gone_of("\noptions\tshow --old\tx\n"), now).size() == 2);
  CHECK(complaints({{"nothing", {"a"}}}, {}, now).front() ==
        "nothing: nothing collects this section");
}

TEST_CASE("inventory: base.json is as it was written", "[inventory]") {
  std::uint64_t sum = 0xcbf29ce484222325; // FNV-1a
  for (const char c : source_text("tests/inventory/base.json"))
    sum = (sum ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  CHECK(sum == 0xf1d6b85107b672c4);
}

// How base.json was made: MHA_INVENTORY=FILE build/dev/tests/cli-tests '[inventory-write]'. It is
// there to see what is new; a file that is there already is kept.
TEST_CASE("inventory: written to the file that MHA_INVENTORY names", "[.][inventory-write]") {
  const char* path = std::getenv("MHA_INVENTORY");
  REQUIRE(path != nullptr);
  REQUIRE_FALSE(std::filesystem::exists(path));
  nlohmann::json all;
  for (const Section& section : inventory()) all[section.name] = section.collect();
  std::ofstream(path) << all.dump(0) << "\n";
}
