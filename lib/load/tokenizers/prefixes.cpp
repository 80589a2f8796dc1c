#include <mha/load/tokenizers/prefixes.hpp>

#include <algorithm>

namespace mha::tokenizers {

namespace {

/// A byte of a text, or -1 behind its end: shorter texts stand first.
int byte_at(const std::string& text, std::size_t at) {
  return at < text.size() ? static_cast<unsigned char>(text[at]) : -1;
}

} // namespace

void Prefixes::finish() {
  std::ranges::stable_sort(entries_, {}, &Entry::text);
  const auto same = [](const Entry& a, const Entry& b) { return a.text == b.text; };
  entries_.erase(std::unique(entries_.begin(), entries_.end(), same), entries_.end());
  for (std::size_t byte = 0; byte < 256; ++byte)
    first_[byte] = narrowed({0, entries_.size()}, 0, static_cast<char>(byte));
}

Prefixes::Range Prefixes::narrowed(Range range, std::size_t at, char byte) const {
  const int wanted = static_cast<unsigned char>(byte);
  const auto begin = entries_.begin() + static_cast<std::ptrdiff_t>(range.first);
  const auto end = entries_.begin() + static_cast<std::ptrdiff_t>(range.last);
  const auto first = std::partition_point(
      begin, end, [&](const Entry& entry) { return byte_at(entry.text, at) < wanted; });
  const auto last = std::partition_point(
      first, end, [&](const Entry& entry) { return byte_at(entry.text, at) == wanted; });
  return {static_cast<std::size_t>(first - entries_.begin()),
          static_cast<std::size_t>(last - entries_.begin())};
}

std::optional<Prefixes::Found> Prefixes::longest(std::string_view text) const {
  std::optional<Found> best;
  each(text, [&](Found found) { best = found; });
  return best;
}

} // namespace mha::tokenizers
