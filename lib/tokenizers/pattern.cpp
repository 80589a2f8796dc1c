#include <mha/tokenizers/pattern.hpp>

#include <mha/tokenizers/fields.hpp>
#include <mha/tokenizers/unicode.hpp>

#include <cstring>

namespace mha::tokenizers {

namespace {

/// Where a text is found from `at` on, or npos. string_view's search begins again after each first
/// character: for two long runs of one character it takes the product of their lengths.
std::size_t place_of(std::string_view wanted, std::string_view text, std::size_t at) {
  const void* const found =
      memmem(text.data() + at, text.size() - at, wanted.data(), wanted.size());
  if (!found) return std::string_view::npos;
  return static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
}

} // namespace

Pattern pattern_of(const std::string& wanted) {
  return [wanted](std::string_view text) {
    std::vector<Match> list;
    std::size_t covered = 0;
    for (std::size_t at = 0; (at = place_of(wanted, text, at)) != std::string_view::npos;) {
      if (covered < at) list.push_back({covered, at, false});
      list.push_back({at, at + wanted.size(), true});
      covered = at += wanted.size();
    }
    if (covered < text.size()) list.push_back({covered, text.size(), false});
    return list;
  };
}

Pattern pattern_of(bool (*kind)(char32_t)) {
  return [kind](std::string_view text) {
    std::vector<Match> list;
    std::size_t covered = 0;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t first = at;
      if (!kind(next_character(text, at))) continue;
      if (covered < first) list.push_back({covered, first, false});
      list.push_back({first, at, true});
      covered = at;
    }
    if (covered < text.size()) list.push_back({covered, text.size(), false});
    return list;
  };
}

Pattern read_pattern(const io::JsonNode& node) {
  Fields fields(node, "a pattern");
  const auto text = fields.find("String"), regex = fields.find("Regex");
  fields.finish();
  if (text && !regex) {
    const std::string wanted = text->text("a pattern's text");
    if (wanted.empty()) text->refuse("a pattern of no text, which would be found everywhere");
    return pattern_of(wanted);
  }
  if (!regex || text) node.refuse("a pattern is {\"String\": …} or {\"Regex\": …}");
  const std::string expression = regex->text("a regular expression");
  try {
    return [compiled = Regex(expression)](std::string_view in) { return compiled.matches(in); };
  } catch (const Error& error) {
    regex->refuse(error.message());
  }
}

} // namespace mha::tokenizers
