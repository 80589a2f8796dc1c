#pragma once
// Finds which of many texts another text begins with.

#include <array>
#include <cstddef>
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

  void add(std::string text, int value) {
    if (!text.empty()) entries_.push_back({std::move(text), value});
  }
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
      if (shortest.text.size() == length) visit(Found{length, shortest.value});
      if (length == text.size()) return;
      range = narrowed(range, length, text[length]);
    }
  }

private:
  struct Entry {
    std::string text;
    int value;
  };
  struct Range {
    std::size_t first = 0, last = 0;
  };
  /// The entries of a range whose byte `at` is that one; they share what stands before.
  Range narrowed(Range range, std::size_t at, char byte) const;

  std::vector<Entry> entries_;     ///< in order
  std::array<Range, 256> first_{}; ///< by their first byte
};

} // namespace mha::tokenizers
