#pragma once
// The bytes of files, pipes and standard input.

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace mha::io {

/// A file's bytes: mapped read-only, or read into memory (small files, standard input).
struct Bytes {
  std::string name; ///< as the user wrote it; "standard input" for "-"
  std::shared_ptr<const std::byte> data;
  std::size_t size = 0;
  bool mapped = false;

  std::string_view text() const { return {reinterpret_cast<const char*>(data.get()), size}; }
};

/// Maps a file (a pipe or FIFO is read into memory); "-" reads standard input to its end.
/// Throws Error "PATH: no such file" (with "did you mean" from the folder), "PATH: is a folder",
/// "PATH: is a device" …
Bytes read_bytes(const std::string& path);

/// The same for a file that was found in a folder, not named by the user: a regular one, or Error
/// "PATH: is a device, …". A pipe would be waited for, and a device may have no end.
Bytes read_member(const std::string& path);

/// The pages of a mapped file between two places have been read: they need not stay in memory.
/// A later read gets them from the file.
void forget(const Bytes& bytes, const char* first, const char* last);
/// `size` bytes from place `first` on, where they are. When the last holder is gone, their pages
/// are forgotten.
std::shared_ptr<const std::byte> in_place(const Bytes& bytes, std::size_t first, std::size_t size);

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

/// Throws Error, with the command that downloads the file, where the bytes are a Git LFS pointer.
void refuse_pointer(const Bytes& bytes);

} // namespace mha::io
