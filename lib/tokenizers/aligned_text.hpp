#pragma once
// A piece of text on its way through normalizers and pre-tokenizers, with the position in the
// user's text that each byte came from.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mha::tokenizers {

/// Bytes [begin, end) of the user's text, which is at most longest_text bytes long.
struct ByteRange {
  std::uint32_t begin = 0, end = 0;
};

/// The range from the beginning of `first` to the end of `last`.
inline ByteRange joined(ByteRange first, ByteRange last) {
  return {first.begin, last.end > first.begin ? last.end : first.end};
}

struct AlignedText {
  std::string bytes;           ///< valid UTF-8
  std::vector<ByteRange> from; ///< the origin of each byte
  std::uint32_t begin = 0;     ///< where its part of the user's text begins
  std::optional<int> id;       ///< of an added token, which no normalizer or pre-tokenizer changes

  /// The origin of bytes [first, last).
  ByteRange span(std::size_t first, std::size_t last) const {
    return first < last ? joined(from[first], from[last - 1]) : ByteRange{begin, begin};
  }
  /// Bytes [first, last) as a text of their own.
  AlignedText part(std::size_t first, std::size_t last) const;

  /// Appends a character or text with the origin `span`.
  void put(char32_t character, ByteRange span);
  void put(std::string_view text, ByteRange span);
  /// Appends bytes [first, last) of another text.
  void keep(const AlignedText& other, std::size_t first, std::size_t last);
  /// Throws Error if the text has grown more than any real tokenizer makes it grow: replacements of
  /// replacements could fill the memory.
  void check_growth() const;
  /// Inserts text before the first character, with the same origin. An empty piece stays empty.
  void prepend(std::string_view text);
};

/// Receives each piece that a text is cut into.
using TakeText = std::function<void(AlignedText&&)>;

/// The user's text, where each character has its own bytes as origin. Each sequence that is not
/// UTF-8 becomes U+FFFD, and `replaced` counts them.
AlignedText aligned(std::string_view text, std::size_t& replaced);

} // namespace mha::tokenizers
