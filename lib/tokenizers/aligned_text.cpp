#include <mha/tokenizers/aligned_text.hpp>

#include <mha/files/text.hpp>
#include <mha/system/characters.hpp>
#include <mha/system/error.hpp>
#include <mha/system/limits.hpp>
#include <mha/tokenizers/tokenizer.hpp>
#include <mha/tokenizers/unicode.hpp>

#include <algorithm>

namespace mha::tokenizers {

AlignedText AlignedText::part(std::size_t first, std::size_t last) const {
  AlignedText text;
  text.bytes = bytes.substr(first, last - first);
  text.from.assign(from.begin() + static_cast<std::ptrdiff_t>(first),
                   from.begin() + static_cast<std::ptrdiff_t>(last));
  text.begin = first < last ? from[first].begin : begin;
  return text;
}

void AlignedText::put(char32_t character, ByteRange span) {
  const std::size_t before = bytes.size();
  append_utf8(bytes, character);
  from.insert(from.end(), bytes.size() - before, span);
}

void AlignedText::put(std::string_view text, ByteRange span) {
  bytes += text;
  from.insert(from.end(), text.size(), span);
}

void AlignedText::keep(const AlignedText& other, std::size_t first, std::size_t last) {
  bytes.append(other.bytes, first, last - first);
  from.insert(from.end(), other.from.begin() + static_cast<std::ptrdiff_t>(first),
              other.from.begin() + static_cast<std::ptrdiff_t>(last));
}

void AlignedText::prepend(std::string_view text) {
  if (bytes.empty()) return;
  bytes.insert(0, text);
  from.insert(from.begin(), text.size(), ByteRange(from.front()));
}

void AlignedText::check_growth() const {
  constexpr std::size_t at_once = 4096, times = 64;
  const ByteRange whole = span(0, bytes.size());
  if (bytes.size() > at_once + times * (whole.end - whole.begin))
    fail("the tokenizer turns {} of the text into {}, which is too much",
         counted(whole.end - whole.begin, "bytes"), bytes.size());
}

namespace {

/// The number of bytes at the start of `text`, which is not a character there, that are replaced
/// together: the longest beginning of a character, as in other decoders.
std::size_t mistake_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0xc2 || lead > 0xf4) return 1;
  const unsigned char low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
  const unsigned char high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
  if (text.size() < 2 || byte(1) < low || byte(1) > high) return 1;
  std::size_t length = 2;
  while (length < length_of(text[0]) && length < text.size() && continues_utf8(text[length]))
    ++length;
  return length;
}

} // namespace

AlignedText aligned(std::string_view text, std::size_t& replaced) {
  if (text.size() > longest_text)
    fail("a text of {} bytes: at most {} GiB can be cut into tokens", text.size(),
         longest_text >> 30);
  constexpr std::size_t least = 16; // bytes per byte: the text, the origins, a few tokens
  require_memory(text.size() * least, "the tokens of the text", "give a shorter text");
  AlignedText result;
  result.bytes.reserve(text.size());
  result.from.reserve(text.size());
  replaced = 0;
  std::size_t at = 0, valid = std::min(io::invalid_utf8(text), text.size());
  while (at < text.size()) {
    const bool broken = at == valid;
    const std::size_t length = broken ? mistake_length(text.substr(at)) : length_of(text[at]);
    const ByteRange span{static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(at + length)};
    if (broken)
      result.put(U'\uFFFD', span);
    else
      result.put(text.substr(at, length), span);
    at += length;
    if (!broken) continue;
    ++replaced;
    const std::size_t next = io::invalid_utf8(text.substr(at));
    valid = next == std::string_view::npos ? text.size() : at + next;
  }
  return result;
}

} // namespace mha::tokenizers
