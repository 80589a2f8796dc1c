#include <mha/layer/words.hpp>

#include <algorithm>

namespace mha {

std::vector<std::string_view> words_of(std::string_view list) {
  std::vector<std::string_view> words;
  while (!list.empty()) {
    const std::size_t space = list.find(' ');
    words.push_back(list.substr(0, space));
    list.remove_prefix(space == std::string_view::npos ? list.size() : space + 1);
  }
  return words;
}

bool has_word(std::string_view list, std::string_view word) {
  // Asked for every name of a file: nothing is allocated.
  while (!list.empty()) {
    const std::size_t space = std::min(list.find(' '), list.size());
    if (list.substr(0, space) == word) return true;
    list.remove_prefix(std::min(space + 1, list.size()));
  }
  return false;
}

std::string_view last_part(std::string_view name) {
  return name.substr(name.rfind('.') + 1);
}

} // namespace mha
