#include <mha/load/name_words.hpp>

#include <mha/system/characters.hpp>
#include <mha/system/words.hpp>

#include <algorithm>
#include <set>
#include <string>
#include <utility>

namespace mha {

namespace {

/// Splits "self_attn.q_proj.weight" into self, attn, q, proj, weight.
std::set<std::string> words_of_name(std::string_view name) {
  const std::string small = lowered(name);
  const std::vector<std::string_view> words = words_of(small, "._/");
  return {words.begin(), words.end()};
}

} // namespace

bool has_word(std::string_view name, WordList words) {
  const std::set<std::string> own = words_of_name(name);
  return std::ranges::any_of(
      words, [&](std::string_view word) { return own.contains(std::string(word)); });
}

bool mentions(std::string_view name, WordList parts) {
  return std::ranges::any_of(words_of_name(name), [&](const std::string& word) {
    return std::ranges::any_of(parts,
                               [&](std::string_view part) { return word.find(part) != word.npos; });
  });
}

std::string_view part_of_model(std::string_view name) {
  constexpr std::pair<std::string_view, std::string_view> parts[]{
      {"decoder", "decoder dec tgt target trg"},
      {"encoder", "encoder enc src source"},
      {"image", "image images vision visual img"},
      {"audio", "audio speech"},
      {"text", "text txt language lang"}};
  const std::set<std::string> own = words_of_name(name);
  for (const auto& [part, words] : parts)
    if (std::ranges::any_of(words_of(words),
                            [&](std::string_view word) { return own.contains(std::string(word)); }))
      return part;
  return "";
}

bool is_norm_weight(std::string_view name) {
  return name.ends_with(".a_2") ||
         has_word(last_part(name), {"weight", "gamma", "g", "w", "scale", "gain", "alpha"});
}

bool is_of_stack(std::string_view name) {
  const std::vector<std::string_view> parts = split_at(name, '.');
  for (std::size_t i = 0; i + 2 < parts.size(); ++i)
    if (is_number(parts[i])) return true;
  return false;
}

} // namespace mha
