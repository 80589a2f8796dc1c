#include "inventory/inventory.hpp"

#include "support/places.hpp"
#include <mha/system/error.hpp>

#include <fstream>
#include <iterator>
#include <utility>

namespace mha::test {

std::pair<std::string, std::string> question_and_answer(const std::string& entry) {
  const std::size_t at = entry.find(" is ");
  if (at == std::string::npos) return {entry, ""};
  return {entry.substr(0, at), entry.substr(at + 4)};
}

Section asked(std::string name, std::function<Names()> names,
              std::function<std::string(const std::string&)> ask) {
  const auto answer = [ask = std::move(ask)](const std::string& question) -> std::string {
    try {
      return ask(question);
    } catch (const Error&) {
      return "";
    }
  };
  return {std::move(name),
          [names = std::move(names), answer] {
            Names entries;
            for (const std::string& question : names())
              if (const std::string said = answer(question); !said.empty())
                entries.insert(question + " is " + said);
            return entries;
          },
          [answer](const std::string& entry) {
            const auto [question, said] = question_and_answer(entry);
            return !said.empty() && answer(question) == said;
          }};
}

std::string source_text(const std::string& path) {
  std::ifstream file(source_folder() + "/" + path, std::ios::binary);
  if (!file) fail("{}: the checkout has no such file", path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<Section> inventory() {
  std::vector<Section> all;
  for (const auto& some :
       {program_sections(), table_sections(), file_sections(), capture_sections(),
        result_sections(), interface_sections(), case_sections()})
    all.insert(all.end(), some.begin(), some.end());
  return all;
}

} // namespace mha::test
