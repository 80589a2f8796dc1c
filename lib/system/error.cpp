#include <mha/system/error.hpp>

#include <mha/system/characters.hpp>

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <numeric>
#include <vector>

namespace mha {

namespace {

/// Names in files may be as long as the file. A message too long to read keeps its beginning, which
/// has the place, and its end, which has what was expected.
std::string of_sensible_length(const std::string& line) {
  constexpr std::size_t longest = 2000, head = 1200, tail = 600;
  if (line.size() <= longest) return line;
  std::size_t end = head, begin = line.size() - tail;
  while (end > head - 3 && continues_utf8(line[end])) --end;
  while (begin < line.size() - tail + 3 && continues_utf8(line[begin])) ++begin;
  return fmt::format("{} … {}", std::string_view(line).substr(0, end),
                     std::string_view(line).substr(begin));
}

/// Control characters as \xNN; other bytes are left to the printer.
std::string in_one_line(const std::string& message) {
  std::string line;
  for (const char c : message)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      line += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    else
      line += c;
  return line;
}

std::string line_of(const Message& message, Wording wording) {
  return of_sensible_length(in_one_line(message.in_words(wording)));
}

/// The set of characters in a word, hashed to 32 bits.
std::uint32_t letters_in(std::string_view word) {
  std::uint32_t letters = 0;
  for (const char c : word) letters |= std::uint32_t{1} << (static_cast<unsigned char>(c) % 32);
  return letters;
}

} // namespace

Error::Error(Message message)
    : std::runtime_error(line_of(message, Wording::program)),
      message_(std::make_shared<const Message>(std::move(message))) {}

std::string Error::line(Wording wording) const {
  return line_of(*message_, wording);
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), row(b.size() + 1), next(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    next[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = row[j - 1] + (a[i - 1] != b[j - 1]);
      next[j] = std::min({row[j] + 1, next[j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        next[j] = std::min(next[j], before[j - 2] + 1);
    }
    before.swap(row);
    row.swap(next);
  }
  return row[b.size()];
}

std::string counted(std::size_t n, std::string_view plural) {
  if (n != 1) return fmt::format("{} {}", n, plural);
  if (plural.starts_with("queries")) return fmt::format("1 query{}", plural.substr(7));
  // The noun is the first word that ends in s.
  std::size_t s = plural.find('s');
  while (s != std::string_view::npos && s + 1 < plural.size() && plural[s + 1] != ' ')
    s = plural.find('s', s + 1);
  if (s == std::string_view::npos) return fmt::format("1 {}", plural);
  return fmt::format("1 {}{}", plural.substr(0, s), plural.substr(s + 1));
}

std::string closest(std::string_view word, std::span<const std::string_view> candidates) {
  std::string_view best;
  std::size_t best_distance = std::max<std::size_t>(1, word.size() / 3) + 1;
  const std::uint32_t letters = letters_in(word);
  for (std::string_view candidate : candidates) {
    // Lengths and letters alone rule out most candidates: an edit changes the length by at most
    // one, the set of letters by at most two.
    const std::size_t longer = std::max(word.size(), candidate.size()),
                      shorter = std::min(word.size(), candidate.size());
    if (longer - shorter >= best_distance) continue;
    const int differing = std::popcount(letters ^ letters_in(candidate));
    if (static_cast<std::size_t>(differing) > 2 * (best_distance - 1)) continue;
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance && distance < candidate.size())
      best_distance = distance, best = candidate;
  }
  return std::string(best);
}

std::string did_you_mean(std::string_view word, std::span<const std::string_view> candidates) {
  const std::string best = closest(word, candidates);
  return best.empty() ? "" : fmt::format("; did you mean '{}'?", best);
}

std::string choices_for(std::string_view word, std::span<const std::string_view> candidates) {
  const std::string meant = did_you_mean(word, candidates);
  return meant.empty() ? fmt::format("; there are {}", fmt::join(candidates, ", ")) : meant;
}

} // namespace mha
