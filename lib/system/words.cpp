#include <mha/system/words.hpp>

#include <algorithm>

namespace mha {

bool has_word(std::string_view list, std::string_view word) {
  // Asked for every name of a file: nothing is allocated.
  while (!list.empty()) {
    const std::size_t space = std::min(list.find(' '), list.size());
    if (list.substr(0, space) == word) return true;
    list.remove_prefix(std::min(space + 1, list.size()));
  }
  return false;
}

std::vector<std::string_view> split_at(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

std::string_view last_part(std::string_view name) {
  return name.substr(name.rfind('.') + 1);
}

} // namespace mha
