#include <mha/tokenizers/split.hpp>

#include <mha/files/text.hpp>
#include <mha/tokenizers/fields.hpp>
#include <mha/tokenizers/unicode.hpp>

#include <algorithm>
#include <array>
#include <cstring>

namespace mha::tokenizers {

namespace {

/// The position of a text from `at` on, or npos. string_view's search restarts after each matching
/// first character, so that for two long runs of one character it takes the product of their
/// lengths.
std::size_t place_of(std::string_view wanted, std::string_view text, std::size_t at) {
  const void* const found =
      memmem(text.data() + at, text.size() - at, wanted.data(), wanted.size());
  if (!found) return std::string_view::npos;
  return static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
}

constexpr std::array<std::string_view, 5> behaviors{"Removed", "Isolated", "MergedWithPrevious",
                                                    "MergedWithNext", "Contiguous"};

/// Joins each match with the part before it, unless that is itself a match.
std::vector<Match> merged_with_previous(const std::vector<Match>& matches) {
  std::vector<Match> list;
  bool before = false;
  for (const Match& match : matches) {
    if (match.found && !before && !list.empty())
      list.back().end = match.end;
    else
      list.push_back(match);
    before = match.found;
  }
  return list;
}

/// Joins each match with the part after it, unless that is itself a match.
std::vector<Match> merged_with_next(const std::vector<Match>& matches) {
  std::vector<Match> list;
  bool after = false;
  for (auto match = matches.rbegin(); match != matches.rend(); ++match) {
    if (match->found && !after && !list.empty())
      list.back().begin = match->begin;
    else
      list.push_back(*match);
    after = match->found;
  }
  std::ranges::reverse(list);
  return list;
}

std::vector<Match> contiguous(const std::vector<Match>& matches) {
  std::vector<Match> list;
  bool before = false;
  for (const Match& match : matches) {
    if (match.found == before && !list.empty())
      list.back().end = match.end;
    else
      list.push_back(match);
    before = match.found;
  }
  return list;
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
    if (wanted.empty()) text->refuse("an empty pattern, which would match everywhere");
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

Behavior read_behavior(Fields& fields, std::optional<Behavior> otherwise) {
  const auto node = fields.find("behavior");
  if (!node && otherwise) return *otherwise;
  const JsonNode value = fields.need("behavior");
  const std::string name = value.text("the behavior");
  const auto found = std::ranges::find(behaviors, name);
  if (found == behaviors.end())
    value.refuse(fmt::format("the behavior '{}' is not known here{}", io::shown(name),
                             did_you_mean(name, behaviors)));
  return static_cast<Behavior>(found - behaviors.begin());
}

void split(const AlignedText& piece, std::vector<Match> matches, Behavior behavior,
           const TakeText& take) {
  if (behavior == Behavior::removed)
    std::erase_if(matches, [](const Match& match) { return match.found; });
  if (behavior == Behavior::merged_with_previous) matches = merged_with_previous(matches);
  if (behavior == Behavior::merged_with_next) matches = merged_with_next(matches);
  if (behavior == Behavior::contiguous) matches = contiguous(matches);
  for (const Match& match : matches)
    if (match.begin < match.end) take(piece.part(match.begin, match.end));
}

PreTokenize split_at(Pattern pattern, Behavior behavior, bool invert) {
  return
      [pattern = std::move(pattern), behavior, invert](AlignedText&& piece, const TakeText& take) {
        std::vector<Match> matches = pattern(piece.bytes);
        if (invert)
          for (Match& match : matches) match.found = !match.found;
        split(piece, std::move(matches), behavior, take);
      };
}

} // namespace mha::tokenizers
