#include <mha/tokenizers/normalizers.hpp>

#include <mha/tokenizers/unicode.hpp>

#include <algorithm>
#include <array>

#include <utf8proc.h>

namespace mha::tokenizers {

namespace {

struct Character {
  utf8proc_int32_t code;
  utf8proc_propval_t combining_class; ///< canonical combining class; 0 for a starter
  ByteRange from;
};

utf8proc_propval_t combining_class_of(utf8proc_int32_t code) {
  return utf8proc_get_property(code)->combining_class;
}

std::vector<Character> decomposed(const AlignedText& text, bool compatible) {
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | UTF8PROC_STABLE |
                                                      (compatible ? UTF8PROC_COMPAT : 0));
  std::vector<Character> list;
  list.reserve(text.bytes.size());
  for (std::size_t at = 0; at < text.bytes.size();) {
    const std::size_t first = at;
    const auto code = static_cast<utf8proc_int32_t>(next_character(text.bytes, at));
    const ByteRange from = text.span(first, at);
    std::array<utf8proc_int32_t, 32> parts{code};
    int boundary = 0;
    const auto n = utf8proc_decompose_char(code, parts.data(), parts.size(), options, &boundary);
    const auto count = n < 1 || n > 32 ? 1u : static_cast<std::size_t>(n);
    for (std::size_t i = 0; i < count; ++i)
      list.push_back({parts[i], combining_class_of(parts[i]), from});
  }
  return list;
}

/// Marks on one character in their canonical order.
void reorder_marks(std::vector<Character>& list) {
  for (auto first = list.begin(); first != list.end(); ++first) {
    if (first->combining_class == 0) continue;
    const auto last =
        std::find_if(first, list.end(), [](const auto& c) { return c.combining_class == 0; });
    std::ranges::stable_sort(first, last, {}, &Character::combining_class);
    first = last - 1;
  }
}

/// The character that two compose to (UAX #15), or 0.
utf8proc_int32_t composite(utf8proc_int32_t first, utf8proc_int32_t second) {
  constexpr utf8proc_int32_t first_combining = 0x300; // no character below composes with one before
  if (second < first_combining) return 0;
  std::array<utf8proc_int32_t, 2> both{first, second};
  constexpr auto options = static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE);
  return utf8proc_normalize_utf32(both.data(), 2, options) == 1 ? both[0] : 0;
}

void compose(std::vector<Character>& list) {
  constexpr std::size_t none = static_cast<std::size_t>(-1);
  std::size_t size = 0, starter = none;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Character c = list[i];
    // UAX #15: a mark is blocked from its starter by a character between the two that is a starter,
    // or whose combining class is not smaller.
    const bool unblocked =
        starter != none &&
        (size == starter + 1 || (list[size - 1].combining_class != 0 &&
                                 list[size - 1].combining_class < c.combining_class));
    const utf8proc_int32_t composed = unblocked ? composite(list[starter].code, c.code) : 0;
    if (composed != 0) {
      list[starter].code = composed;
      list[starter].from = joined(list[starter].from, c.from);
      continue;
    }
    if (c.combining_class == 0) starter = size;
    list[size++] = c;
  }
  list.resize(size);
}

} // namespace

void normalize(AlignedText& text, bool compatible, bool composed) {
  const bool ascii = std::ranges::all_of(text.bytes, [](char c) { return (c & 0x80) == 0; });
  if (ascii) return;
  std::vector<Character> list = decomposed(text, compatible);
  reorder_marks(list);
  if (composed) compose(list);
  AlignedText result;
  result.begin = text.begin;
  for (const Character& c : list) result.put(static_cast<char32_t>(c.code), c.from);
  text = std::move(result);
}

} // namespace mha::tokenizers
