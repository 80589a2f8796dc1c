#include <mha/load/described_names.hpp>

#include <charconv>

namespace mha {

std::string with_mark(std::string text, std::string_view mark, std::size_t number) {
  for (std::size_t at = 0; (at = text.find(mark, at)) != std::string::npos;)
    text.replace(at, mark.size(), std::to_string(number));
  return text;
}

std::string whole_pattern(const naming::Description& said, const std::string& name,
                          std::size_t layer) {
  if (name.find(layer_mark) != std::string::npos) return name;
  return said.layers[said.layers.size() > 1 ? std::min(layer, said.layers.size() - 1) : 0] + name;
}
std::string whole_name(const naming::Description& said, const std::string& name,
                       std::size_t layer) {
  return with_mark(whole_pattern(said, name, layer), layer_mark, layer);
}

std::optional<std::size_t> number_in(std::string_view name, std::string_view pattern) {
  const std::size_t at = pattern.find(layer_mark);
  if (at == std::string_view::npos || !name.starts_with(pattern.substr(0, at))) return std::nullopt;
  std::size_t number = 0;
  const char* const end = name.data() + name.size();
  const auto [behind, error] = std::from_chars(name.data() + at, end, number);
  constexpr std::size_t most = 100000;
  if (error != std::errc() || number > most) return std::nullopt;
  const std::string pattern_with(with_mark(std::string(pattern), layer_mark, number));
  const std::size_t head = pattern_with.find(head_mark);
  if (head != std::string::npos ? name.starts_with(pattern_with.substr(0, head))
                                : name == pattern_with)
    return number;
  return std::nullopt;
}

bool is_like(std::string_view name, std::string_view pattern) {
  if (pattern.empty()) return name.empty();
  if (pattern.starts_with(layer_mark)) {
    std::size_t digits = 0;
    while (digits < name.size() && name[digits] >= '0' && name[digits] <= '9') ++digits;
    return digits > 0 && is_like(name.substr(digits), pattern.substr(layer_mark.size()));
  }
  if (pattern[0] != '*')
    return !name.empty() && name[0] == pattern[0] && is_like(name.substr(1), pattern.substr(1));
  for (std::size_t skipped = 0; skipped <= name.size(); ++skipped)
    if (is_like(name.substr(skipped), pattern.substr(1))) return true;
  return false;
}

std::string bias_beside(const std::string& weight) {
  for (const auto& [ending, other] :
       {std::pair<std::string_view, std::string_view>("weight", "bias"),
        {"kernel", "bias"},
        {"gamma", "beta"},
        {".w", ".b"},
        {".W", ".b"}})
    if (weight.ends_with(ending))
      return weight.substr(0, weight.size() - ending.size()) + std::string(other);
  return "";
}

} // namespace mha
