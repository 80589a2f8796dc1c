// Words that comments, names, messages and pages do not have (banned_words.tsv): a native reader
// stops at each. Fixed names and quotations that have them are listed in allowed_words.tsv.

#include "support/files.hpp"
#include "support/places.hpp"

#include <mha/system/words.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

namespace fs = std::filesystem;

namespace {

/// The rows of a table of tests/unit.
std::vector<std::vector<std::string>> rows_of(const std::string& name) {
  std::vector<std::vector<std::string>> rows;
  std::ifstream file(fs::path(mha::test::source_folder()) / "tests/unit" / name);
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line.starts_with('#')) continue;
    const std::vector<std::string_view> cells = mha::split_at(line, '\t');
    rows.emplace_back(cells.begin(), cells.end());
  }
  return rows;
}

/// The words and numbers of a line, in small letters, those of identifiers among them: "hands_on"
/// is two. A colon directly after "again" is part of it.
std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> words;
  std::string word;
  char before = ' ';
  const auto end = [&] {
    if (!word.empty()) words.push_back(word);
    word.clear();
  };
  for (const char c : line) {
    const auto letter = static_cast<unsigned char>(c);
    const bool begins = std::isupper(letter) && std::islower(static_cast<unsigned char>(before));
    if (!std::isalnum(letter) || begins) {
      const bool of_again = c == ':' && word == "again";
      if (of_again) word += c;
      end();
      const bool separates = !of_again && c != ' ' && c != '_' && c != '-' && !std::isalnum(letter);
      if (separates && !words.empty()) words.emplace_back(1, c); // no phrase goes on after it
    }
    if (std::isalnum(letter)) word += static_cast<char>(std::tolower(letter));
    before = c;
  }
  end();
  return words;
}

/// Whether "is no name" is in a line, which "there is no name" and "is no longer" are not.
bool has_is_no(const std::vector<std::string>& words) {
  static const std::set<std::string> verbs{"is", "are", "was", "were", "be"},
      comparatives{"longer",  "more",    "less",    "wider",  "larger", "smaller",
                   "greater", "shorter", "further", "better", "worse"};
  for (std::size_t i = 0; i + 2 < words.size(); ++i)
    if (verbs.count(words[i]) == 1 && words[i + 1] == "no" &&
        comparatives.count(words[i + 2]) == 0 && (i == 0 || words[i - 1] != "there"))
      return true;
  return false;
}

/// What a line has of the banned phrases; "" for none.
std::string banned_in(const std::string& line,
                      const std::vector<std::vector<std::string>>& phrases) {
  const std::vector<std::string> words = words_of(line);
  for (const std::vector<std::string>& phrase : phrases)
    if (std::search(words.begin(), words.end(), phrase.begin(), phrase.end()) != words.end()) {
      std::string text;
      for (const std::string& word : phrase) text += (text.empty() ? "" : " ") + word;
      return text;
    }
  return has_is_no(words) ? "is no" : "";
}

std::vector<std::vector<std::string>> banned_phrases() {
  std::vector<std::vector<std::string>> phrases;
  for (const std::vector<std::string>& row : rows_of("banned_words.tsv"))
    phrases.push_back(words_of(row.at(0)));
  return phrases;
}

} // namespace

TEST_CASE("comments, names, messages and pages have none of the banned words", "[house]") {
  const auto phrases = banned_phrases();
  REQUIRE(phrases.size() > 40);
  const auto allowed = rows_of("allowed_words.tsv"); // file, text
  std::set<std::string> used;
  const fs::path root = mha::test::source_folder();
  const std::set<std::string> kinds{".hpp",  ".cpp", ".md",   ".py",  ".js",
                                    ".html", ".css", ".json", ".txt", ".cmake"};
  std::size_t lines = 0;
  for (const char* place : {"lib", "app", "docs", "README.md", "CONTRIBUTING.md"}) {
    std::vector<fs::path> files;
    if (fs::is_directory(root / place)) {
      for (const auto& entry : fs::recursive_directory_iterator(root / place))
        if (kinds.count(entry.path().extension()) == 1) files.push_back(entry.path());
    } else {
      files.push_back(root / place);
    }
    for (const fs::path& path : files) {
      const std::string name = fs::relative(path, root).generic_string();
      std::ifstream file(path);
      std::size_t number = 0;
      for (std::string line; std::getline(file, line);) {
        ++number, ++lines;
        for (const auto& row : allowed)
          if (row.at(0) == name)
            if (const std::size_t at = line.find(row.at(1)); at != std::string::npos) {
              line.erase(at, row.at(1).size());
              used.insert(row.at(0) + "\t" + row.at(1));
            }
        if (const std::string found = banned_in(line, phrases); !found.empty())
          FAIL_CHECK(name << ':' << number << " has '" << found << "': " << line);
      }
    }
  }
  CHECK(lines > 100'000);
  for (const auto& row : allowed) {
    INFO(row.at(0) << ": " << row.at(1) << " is allowed, and not there");
    CHECK(used.count(row.at(0) + "\t" + row.at(1)) == 1);
  }
}

TEST_CASE("a banned word is found in a comment, a name and a message", "[house]") {
  const auto phrases = banned_phrases();
  for (const auto& [line, found] : std::vector<std::pair<std::string, std::string>>{
           {"/// What stands there.", "stands"},
           {"int is_behind_output;", "behind"},
           {"bool SaidTwice;", "said"},
           {"'foo' is no stage", "is no"},
           {"it is handed on", "handed on"},
           {"a text; again: several", "again:"},
           {"there is no stage, and it is no longer asked for again", ""},
           {"understood, essays, a flies, lied", ""}}) {
    INFO(line);
    CHECK(banned_in(line, phrases) == found);
  }
}
