#include <mha/load/name_words.hpp>

#include <algorithm>
#include <set>
#include <string>
#include <utility>

namespace mha {

namespace {

/// "self_attn.q_proj.weight" as self, attn, q, proj, weight.
std::set<std::string> words_of_name(std::string_view name) {
  std::set<std::string> words;
  std::string word;
  for (const char c : std::string(name) + '.') {
    const bool upper = c >= 'A' && c <= 'Z', splits = c == '.' || c == '_' || c == '/';
    if (!splits) word += upper ? static_cast<char>(c - 'A' + 'a') : c;
    if (splits && !word.empty()) words.insert(std::exchange(word, ""));
  }
  return words;
}

} // namespace

bool has_word(std::string_view name, Words words) {
  const std::set<std::string> own = words_of_name(name);
  return std::ranges::any_of(
      words, [&](std::string_view word) { return own.contains(std::string(word)); });
}

bool speaks_of(std::string_view name, Words parts) {
  return std::ranges::any_of(words_of_name(name), [&](const std::string& word) {
    return std::ranges::any_of(parts,
                               [&](std::string_view part) { return word.find(part) != word.npos; });
  });
}

bool is_norm_weight(std::string_view name) {
  return name.ends_with(".a_2") ||
         has_word(name.substr(name.rfind('.') + 1), {"weight", "gamma", "g", "w", "scale", "gain", "alpha"});
}

bool is_of_stack(std::string_view name) {
  for (std::size_t at = 0; at < name.size();) {
    const std::size_t dot = std::min(name.find('.', at), name.size());
    const std::string_view part = name.substr(at, dot - at), behind = name.substr(dot);
    if (!part.empty() && part.find_first_not_of("0123456789") == part.npos &&
        std::ranges::count(behind, '.') > 1)
      return true;
    at = dot + 1;
  }
  return false;
}

} // namespace mha
