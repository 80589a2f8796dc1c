#include <mha/tokenizers/prefixes.hpp>

#include <algorithm>

namespace mha::tokenizers {

void Prefixes::add(std::string_view text, int value) {
  if (text.empty()) return;
  std::uint64_t key = 0;
  for (std::size_t i = 0; i < sizeof key; ++i)
    key = key << 8 | (i < text.size() ? static_cast<unsigned char>(text[i]) : 0u);
  entries_.push_back({key, static_cast<std::uint32_t>(bytes_.size()),
                      static_cast<std::uint32_t>(text.size()), value});
  bytes_ += text;
}

void Prefixes::finish() {
  std::ranges::sort(entries_, [&](const StoredText& a, const StoredText& b) {
    if (a.key != b.key) return a.key < b.key;
    const int order = text_of(a).compare(text_of(b));
    return order != 0 ? order < 0 : a.begin < b.begin;
  });
  const auto same = [&](const StoredText& a, const StoredText& b) {
    return text_of(a) == text_of(b);
  };
  entries_.erase(std::unique(entries_.begin(), entries_.end(), same), entries_.end());
  for (std::size_t byte = 0; byte < 256; ++byte)
    first_[byte] = narrowed({0, entries_.size()}, 0, static_cast<char>(byte));
}

Prefixes::Range Prefixes::narrowed(Range range, std::size_t at, char byte) const {
  const int wanted = static_cast<unsigned char>(byte);
  const auto begin = entries_.begin() + static_cast<std::ptrdiff_t>(range.first);
  const auto end = entries_.begin() + static_cast<std::ptrdiff_t>(range.last);
  const auto first = std::partition_point(
      begin, end, [&](const StoredText& entry) { return byte_at(entry, at) < wanted; });
  const auto last = std::partition_point(
      first, end, [&](const StoredText& entry) { return byte_at(entry, at) == wanted; });
  return {static_cast<std::size_t>(first - entries_.begin()),
          static_cast<std::size_t>(last - entries_.begin())};
}

std::optional<Prefixes::FoundEntry> Prefixes::longest(std::string_view text) const {
  std::optional<FoundEntry> best;
  each(text, [&](FoundEntry found) { best = found; });
  return best;
}

} // namespace mha::tokenizers
