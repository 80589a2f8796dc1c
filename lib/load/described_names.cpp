#include <mha/load/described_names.hpp>

#include <mha/system/characters.hpp>
#include <mha/system/parse.hpp>

namespace mha {

namespace {

/// A small number from `at` on, 0 where there are no digits; moves `at` after it.
std::size_t digits_at(std::string_view text, std::size_t& at) {
  std::size_t number = 0;
  constexpr std::size_t most = 1000;
  for (; at < text.size() && is_digit(text[at]) && number < most; ++at)
    number = 10 * number + static_cast<std::size_t>(text[at] - '0');
  return number;
}

/// The mark that begins with the brace at `at`.
std::optional<LayerMark> layer_mark_at(std::string_view text, std::size_t at) {
  constexpr std::string_view word = "layer";
  LayerMark mark{at, 0, 1, 0};
  std::size_t end = at + 1;
  const std::size_t factor = digits_at(text, end);
  if (end > at + 1) {
    if (!text.substr(end).starts_with('*')) return std::nullopt;
    mark.factor = factor, ++end;
  }
  if (!text.substr(end).starts_with(word)) return std::nullopt;
  end += word.size();
  if (text.substr(end).starts_with('+')) {
    const std::size_t digits = ++end;
    mark.offset = digits_at(text, end);
    if (end == digits) return std::nullopt;
  }
  if (!text.substr(end).starts_with('}')) return std::nullopt;
  mark.length = end + 1 - at;
  return mark;
}

} // namespace

std::optional<LayerMark> layer_mark_in(std::string_view text, std::size_t from) {
  for (std::size_t at = text.find('{', from); at != text.npos; at = text.find('{', at + 1))
    if (const auto mark = layer_mark_at(text, at)) return mark;
  return std::nullopt;
}

std::string unknown_mark(std::string_view name) {
  for (std::size_t at = name.find('{'); at != name.npos; at = name.find('{', at + 1))
    if (!layer_mark_at(name, at) && !name.substr(at).starts_with(head_mark) &&
        !name.substr(at).starts_with(next_head_mark) && !name.substr(at).starts_with(expert_mark) &&
        !name.substr(at).starts_with(attention_mark) && !name.substr(at).starts_with(above_mark)) {
      const std::size_t end = name.find('}', at);
      return std::string(name.substr(at, end == name.npos ? end : end + 1 - at));
    }
  return "";
}

std::string with_head(std::string text, std::size_t head) {
  for (const auto& [mark, number] :
       {std::pair(head_mark, head), {next_head_mark, head + 1}, {expert_mark, head}})
    for (std::size_t at = 0; (at = text.find(mark, at)) != std::string::npos;)
      text.replace(at, mark.size(), std::to_string(number));
  return text;
}

std::string with_layer(std::string text, std::size_t layer) {
  std::size_t at = 0;
  while (const auto mark = layer_mark_in(text, at)) {
    const std::string number = std::to_string(mark->factor * layer + mark->offset);
    text.replace(mark->at, mark->length, number);
    at = mark->at + number.size();
  }
  return text;
}

std::string whole_pattern(const naming::Description& description, const std::string& name,
                          std::size_t layer) {
  if (layer_mark_in(name)) return name;
  return description
             .layers[description.layers.size() > 1 ? std::min(layer, description.layers.size() - 1)
                                                   : 0] +
         name;
}
std::string whole_name(const naming::Description& description, const std::string& name,
                       std::size_t layer) {
  return with_layer(whole_pattern(description, name, layer), layer);
}

std::size_t head_mark_in(std::string_view text) {
  return std::min({text.find(head_mark), text.find(next_head_mark), text.find(expert_mark)});
}

std::optional<std::size_t> number_in(std::string_view name, std::string_view pattern) {
  const auto mark = layer_mark_in(pattern);
  if (!mark || !name.starts_with(pattern.substr(0, mark->at))) return std::nullopt;
  std::string_view rest = name.substr(mark->at);
  const auto written = take_number<std::size_t>(rest);
  constexpr std::size_t most = 100000;
  if (!written || *written > most || *written < mark->offset) return std::nullopt;
  if (mark->factor == 0) return std::nullopt; // the same in every layer
  const std::size_t number = (*written - mark->offset) / mark->factor;
  const std::string with_number = with_layer(std::string(pattern), number);
  const std::size_t head = head_mark_in(with_number);
  if (head != std::string::npos ? name.starts_with(with_number.substr(0, head))
                                : name == with_number)
    return number;
  return std::nullopt;
}

bool is_like(std::string_view name, std::string_view pattern) {
  if (pattern.empty()) return name.empty();
  if (pattern.starts_with(layer_mark)) {
    std::size_t digits = 0;
    while (digits < name.size() && is_digit(name[digits])) ++digits;
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
        {".alpha", ".bias"},
        {".w", ".b"},
        {".W", ".b"},
        {".a_2", ".b_2"}})
    if (weight.ends_with(ending))
      return weight.substr(0, weight.size() - ending.size()) + std::string(other);
  const std::size_t own = weight.rfind('.') + 1; // "mlp.W_in"
  if (weight.compare(own, 2, "W_") == 0)
    return weight.substr(0, own) + "b_" + weight.substr(own + 2);
  return "";
}

} // namespace mha
