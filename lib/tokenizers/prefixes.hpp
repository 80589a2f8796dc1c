#pragma once
// Finds which of many texts another text begins with.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mha::tokenizers {

class Prefixes {
public:
  struct Found {
    std::size_t length = 0;
    int value = 0;
  };

  void add(std::string_view text, int value);
  /// To be called when all are there. Of the same text twice, the first counts.
  void finish();

  /// The longest entry that `text` begins with.
  std::optional<Found> longest(std::string_view text) const;
  /// Calls visit(Found) for every entry that `text` begins with, the shortest first.
  template <class Visit> void each(std::string_view text, const Visit& visit) const {
    if (text.empty()) return;
    Range range = first_[static_cast<unsigned char>(text[0])];
    for (std::size_t length = 1; range.first < range.last; ++length) {
      const Entry& shortest = entries_[range.first];
      if (shortest.length == length) visit(Found{length, shortest.value});
      if (length == text.size()) return;
      range = narrowed(range, length, text[length]);
    }
  }

private:
  struct Entry {
    std::uint64_t key; ///< its first eight bytes, which order most entries at once
    std::uint32_t begin, length;
    int value;
  };
  struct Range {
    std::size_t first = 0, last = 0;
  };
  std::string_view text_of(const Entry& entry) const {
    return std::string_view(bytes_).substr(entry.begin, entry.length);
  }
  /// A byte of an entry, or -1 behind its end: shorter texts stand first.
  int byte_at(const Entry& entry, std::size_t at) const {
    return at < entry.length ? static_cast<unsigned char>(bytes_[entry.begin + at]) : -1;
  }
  /// The entries of a range whose byte `at` is that one; they share what stands before.
  Range narrowed(Range range, std::size_t at, char byte) const;

  std::string bytes_;              ///< of all entries
  std::vector<Entry> entries_;     ///< in order
  std::array<Range, 256> first_{}; ///< by their first byte
};

} // namespace mha::tokenizers
