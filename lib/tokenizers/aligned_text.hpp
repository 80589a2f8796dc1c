#pragma once
// A piece of text on its way through normalizers and pre-tokenizers, each of its bytes with the
// place in the user's text that it came from.

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

/// From the beginning of the one to the end of the other.
inline ByteRange joined(ByteRange first, ByteRange last) {
  return {first.begin, last.end > first.begin ? last.end : first.end};
}

struct AlignedText {
  std::string bytes;           ///< valid UTF-8
  std::vector<ByteRange> from; ///< of each byte
  std::uint32_t begin = 0;     ///< where the part of the user's text begins that it was made of
  std::optional<int> id;       ///< an added token: no normalizer or pre-tokenizer touches it

  /// What bytes [first, last) stand for.
  ByteRange span(std::size_t first, std::size_t last) const {
    return first < last ? joined(from[first], from[last - 1]) : ByteRange{begin, begin};
  }
  /// Bytes [first, last) as a text of their own.
  AlignedText part(std::size_t first, std::size_t last) const;

  /// Appends a character or text that stands for `span`.
  void put(char32_t character, ByteRange span);
  void put(std::string_view text, ByteRange span);
  /// Appends bytes [first, last) of another text.
  void keep(const AlignedText& other, std::size_t first, std::size_t last);
  /// Throws Error for a text that has grown beyond what any tokenizer means: replacements of
  /// replacements could fill the memory.
  void check_growth() const;
  /// Inserts text before the first character; it stands for the same bytes of the user's text as
  /// that one. An empty piece stays empty.
  void prepend(std::string_view text);
};

/// Takes a piece that a text was cut into.
using TakeText = std::function<void(AlignedText&&)>;

/// The user's text, a character each from its own bytes; sequences that are no UTF-8 become U+FFFD
/// each, and `replaced` counts them.
AlignedText aligned(std::string_view text, std::size_t& replaced);

} // namespace mha::tokenizers
