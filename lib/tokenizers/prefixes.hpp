#pragma once
// Search for the entries that are prefixes of a text.

#include <mha/tokenizers/text_time.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mha::tokenizers {

/// A set of texts, the entries, each with a number: a token's id, or an index of the caller.
class Prefixes {
public:
  /// An entry that is a prefix of a text: its length and its number.
  struct FoundEntry {
    std::size_t length = 0;
    int value = 0;
  };

  void add(std::string_view text, int value);
  /// Sorts the entries; must be called after the last one was added and before a search. Of equal
  /// entries the first one is kept.
  void finish();

  /// The longest entry that `text` begins with, or nothing.
  std::optional<FoundEntry> longest(std::string_view text) const;
  /// Calls visit(FoundEntry) for every entry that `text` begins with, the shortest first. Long
  /// entries count towards the time limit (TextTime).
  template <class Visit> void each(std::string_view text, const Visit& visit) const {
    if (text.empty()) return;
    Range range = first_[static_cast<unsigned char>(text[0])];
    std::size_t length = 1;
    for (; range.first < range.last; ++length) {
      const StoredText& shortest = entries_[range.first];
      if (shortest.length == length) visit(FoundEntry{length, shortest.value});
      if (length == text.size()) break;
      range = narrowed(range, length, text[length]);
    }
    constexpr std::size_t usual = 64; // pieces of words are shorter
    if (length > usual) TextTime::count(length, "list of pieces");
  }

private:
  struct StoredText {
    std::uint64_t key; ///< the first eight bytes, by which most entries are in order
    std::uint32_t begin, length;
    int value;
  };
  struct Range {
    std::size_t first = 0, last = 0;
  };
  std::string_view text_of(const StoredText& entry) const {
    return std::string_view(bytes_).substr(entry.begin, entry.length);
  }
  /// A byte of an entry, or -1 after its end, so that shorter texts come first.
  int byte_at(const StoredText& entry, std::size_t at) const {
    return at < entry.length ? static_cast<unsigned char>(bytes_[entry.begin + at]) : -1;
  }
  /// The entries of a range, which are equal up to byte `at`, with `byte` there.
  Range narrowed(Range range, std::size_t at, char byte) const;

  std::string bytes_;               ///< of all entries
  std::vector<StoredText> entries_; ///< in the order of their bytes
  std::array<Range, 256> first_{};  ///< by their first byte
};

} // namespace mha::tokenizers
