#pragma once
// Everything by which a user, a file or another program reaches this project, as sorted names in
// sections: what a change of the code must not lose unsaid. base.json was written once.

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace mha::test {

using Names = std::set<std::string>;

/// One kind of names.
struct Section {
  std::string name; ///< "options"
  /// Those that there are now.
  std::function<Names()> collect;
  /// Whether one of base.json is still there, where that is asked for by itself ("NAME is STAGE"):
  /// tables may then move without this test. Empty: it is one of those collected.
  std::function<bool(const std::string& entry)> holds = {};
};

/// What the library's tables say: stages, tensors, settings, families, formats, measures …
std::vector<Section> table_sections();
/// What files may hold, by writing and reading them.
std::vector<Section> file_sections();
/// What captures may be called, and what the names mean.
std::vector<Section> capture_sections();
/// What the program prints of itself: commands, options, choices, manual, completions.
std::vector<Section> program_sections();
/// Fields of the results of each command.
std::vector<Section> result_sections();
/// Names for programs: C++ and Python.
std::vector<Section> interface_sections();
/// Test cases and scripts.
std::vector<Section> case_sections();
/// All of them.
std::vector<Section> inventory();

/// "weights is attention weights" → {"weights", "attention weights"}.
std::pair<std::string, std::string> question_and_answer(const std::string& entry);
/// A section of pairs "NAME is ANSWER": `ask` gives the answer to a name, "" where there is none,
/// and throws Error or gives "" for what is unknown.
Section asked(std::string name, std::function<Names()> names,
              std::function<std::string(const std::string&)> ask);
/// The whole text of a file of the checkout.
std::string source_text(const std::string& path);

} // namespace mha::test
