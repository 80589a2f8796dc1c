#pragma once
// Splitting and joining texts: lists in tables, dotted names, options.

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mha {

/// The words of a text, in order, which any of these characters separate; none is empty.
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
/// Whether a list of words separated by spaces has `word`.
inline bool has_word(std::string_view list, std::string_view word) {
  // Called for every name in a file, so it allocates nothing.
  while (!list.empty()) {
    const std::size_t space = std::min(list.find(' '), list.size());
    if (list.substr(0, space) == word) return true;
    list.remove_prefix(std::min(space + 1, list.size()));
  }
  return false;
}
/// The parts between the separators, including empty ones: "q,,k" → "q", "", "k". An empty text
/// has one empty part.
inline std::vector<std::string_view> split_at(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}
/// The elements, or `text_of` each, with `between` between them.
template <class List, class TextOf = std::identity>
std::string joined_texts(const List& list, std::string_view between, const TextOf& text_of = {}) {
  std::string text;
  bool is_first = true;
  for (const auto& element : list) {
    if (!std::exchange(is_first, false)) text += between;
    text += std::invoke(text_of, element);
  }
  return text;
}
/// The names of stages, letters or types: "q, k, v".
template <class List> std::string joined_names(const List& list, std::string_view between = ", ") {
  return joined_texts(list, between, [](const auto& named) { return name_of(named); });
}
/// The part of a name after its last dot, or the whole name: "blocks.0.attn.hook_q" → "hook_q".
inline std::string_view last_part(std::string_view name) {
  return name.substr(name.rfind('.') + 1);
}

} // namespace mha
