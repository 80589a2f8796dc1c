#pragma once
// Words and parts of a text between separators: lists of the tables, dotted names, what is typed.

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mha {

/// The words of a text in its order, between any of these characters; none is empty.
template <class Word = std::string_view>
std::vector<Word> words_of(std::string_view text, std::string_view separators = " ") {
  std::vector<Word> words;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of(separators), text.size());
    if (end > 0) words.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}
/// Whether `word` is one of a list's words, which a space separates.
inline bool has_word(std::string_view list, std::string_view word) {
  // Asked for every name of a file: nothing is allocated.
  while (!list.empty()) {
    const std::size_t space = std::min(list.find(' '), list.size());
    if (list.substr(0, space) == word) return true;
    list.remove_prefix(std::min(space + 1, list.size()));
  }
  return false;
}
/// What stands between the separators, empty parts too: "q,,k" → "q", "", "k"; of "" one that is
/// empty.
inline std::vector<std::string_view> split_at(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}
/// The elements, or what `text_of` says of each, with `between` between them.
template <class List, class TextOf = std::identity>
std::string joined_texts(const List& list, std::string_view between, const TextOf& text_of = {}) {
  std::string text;
  bool is_first = true;
  for (const auto& one : list) {
    if (!std::exchange(is_first, false)) text += between;
    text += std::invoke(text_of, one);
  }
  return text;
}
/// The names of stages, letters or types: "q, k, v".
template <class List> std::string joined_names(const List& list, std::string_view between = ", ") {
  return joined_texts(list, between, [](const auto& one) { return name_of(one); });
}
/// What is behind a name's last dot, or the whole name: "blocks.0.attn.hook_q" → "hook_q".
inline std::string_view last_part(std::string_view name) {
  return name.substr(name.rfind('.') + 1);
}

} // namespace mha
