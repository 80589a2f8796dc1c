#include <mha/load/families/unread_settings.hpp>

#include <mha/layer/block.hpp>
#include <mha/layer/settings.hpp>
#include <mha/load/families/description.hpp>
#include <mha/system/parse.hpp>
#include <mha/system/words.hpp>

#include <algorithm>

#include <fmt/format.h>

namespace mha::naming {

namespace {

/// A key of config.json, and the word of a description for the same value.
struct Deciding {
  std::string_view key, word;
};
constexpr Deciding deciding[]{{"rope_theta", "rope_base"},   {"rotary_emb_base", "rope_base"},
                              {"rms_norm_eps", "eps"},       {"layer_norm_eps", "eps"},
                              {"layer_norm_epsilon", "eps"}, {"norm_eps", "eps"},
                              {"norm_epsilon", "eps"},       {"layernorm_epsilon", "eps"}};

/// The number used if neither is there.
double usual(std::string_view word) {
  return word == "eps" ? Norm().eps : Settings().rope_base;
}

/// Whether the description gives the number itself, or has nothing that uses it.
bool is_settled(const Description& description, const Group& group, std::string_view word) {
  if (word != "eps") {
    const auto rope = description.settings.find("rope");
    return description.settings.contains(std::string(word)) || rope == description.settings.end() ||
           rope->second.value(group) == "none";
  }
  return description.text.find("\"eps\"") != std::string::npos || description.norms.empty();
}

} // namespace

std::vector<Note> unread_by_description(const Group& group) {
  std::vector<Note> notes;
  const Description& description = *group.description;
  for (const auto& [whole_key, value] : *group.config) {
    const std::string_view key = last_part(whole_key); // also in sections
    const auto known = std::ranges::find(deciding, key, &Deciding::key);
    if (known == std::end(deciding) || is_settled(description, group, known->word)) continue;
    const double otherwise = usual(known->word);
    if (parse_number<double>(value).value_or(otherwise) == otherwise) continue;
    notes.push_back(warning(fmt::format(
        "config.json: {} is {}, which {} does not read: {} is {}; add \"{}\": \"config:{}\"",
        whole_key, value, description.file, known->word, otherwise, known->word, whole_key)));
  }
  return notes;
}

} // namespace mha::naming
