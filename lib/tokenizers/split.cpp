#include <mha/tokenizers/split.hpp>

#include <mha/files/text.hpp>

#include <algorithm>
#include <array>

namespace mha::tokenizers {

namespace {

constexpr std::array<std::string_view, 5> behaviors{"Removed", "Isolated", "MergedWithPrevious",
                                                    "MergedWithNext", "Contiguous"};

/// A match joins the stretch before it, where that is none itself.
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

/// A match joins the stretch behind it, where that is none itself.
std::vector<Match> merged_with_next(const std::vector<Match>& matches) {
  std::vector<Match> list;
  bool behind = false;
  for (auto match = matches.rbegin(); match != matches.rend(); ++match) {
    if (match->found && !behind && !list.empty())
      list.back().begin = match->begin;
    else
      list.push_back(*match);
    behind = match->found;
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
