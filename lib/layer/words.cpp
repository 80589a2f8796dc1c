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
  const std::vector<std::string_view> words = words_of(list);
  return std::find(words.begin(), words.end(), word) != words.end();
}

} // namespace mha
