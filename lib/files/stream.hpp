#pragma once
// Limits of reading inputs without a length: a pipe, a FIFO, standard input.

#include <mha/files/contents.hpp>

#include <span>
#include <string_view>

namespace mha::io {

/// A pipe may have no end (`yes |`, `<(cat /dev/zero)`). It is read up to a limit that a message
/// states, and no further than its beginning if that is of nothing that can be meant. Files have
/// their length, and are read as they are.
struct StreamLimit {
  std::size_t bytes = 0; ///< 0: half of the memory that there is
  std::string_view what = "an input";
  /// Whether a stream that begins so can be what is meant; where it cannot, the beginning is all
  /// that is read, and the reader says what is wrong. nullptr: any can.
  bool (*possible)(std::span<const std::byte> first) = nullptr;
};

/// Texts, labels and configs from a pipe.
inline constexpr StreamLimit text_limit{std::size_t{64} << 20, "a text", nullptr};

/// read_bytes (contents.hpp) with a limit for streams. Throws Error "PATH: is longer than 64 MiB,
/// as much as is read of a pipe for a text; save it to a file".
Bytes read_bytes(const std::string& path, const StreamLimit& limit);

} // namespace mha::io
