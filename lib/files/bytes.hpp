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

/// read_bytes for a file that was found in a folder, not named by the user. Throws Error "PATH: is
/// a device; …" unless it is a regular file: opening a pipe would block, and a device may have no
/// end.
Bytes read_member(const std::string& path);

/// Drops the pages of a mapped file between two addresses from memory. A later read gets them from
/// the file again.
void forget(const Bytes& bytes, const char* first, const char* last);
/// `size` bytes from offset `first` on, without a copy. Their pages are dropped from memory with
/// the last reference.
std::shared_ptr<const std::byte> in_place(const Bytes& bytes, std::size_t first, std::size_t size);

/// A limit for pipes, which may have no end (`yes |`, `<(cat /dev/zero)`). Reading stops at the
/// limit, or after the first bytes if they belong to no supported format. Files have a length and
/// need no limit.
struct StreamLimit {
  std::size_t bytes = 0; ///< 0: half of the available memory
  std::string_view what = "an input";
  /// Whether a stream with these first bytes can be a valid input. If not, only the first bytes are
  /// returned, and their reader reports the mistake. nullptr accepts all streams.
  bool (*possible)(std::span<const std::byte> first) = nullptr;
};

/// Texts, labels and configs from a pipe.
inline constexpr StreamLimit text_limit{std::size_t{64} << 20, "a text", nullptr};

/// read_bytes with a limit for streams. Throws Error "PATH: is longer than 64 MiB, the most that is
/// read from a pipe for a text; save it to a file".
Bytes read_bytes(const std::string& path, const StreamLimit& limit);

/// Throws Error, with the command that downloads the file, if the bytes are a Git LFS pointer,
/// which takes the place of a large file that was not downloaded.
void refuse_pointer(const Bytes& bytes);

} // namespace mha::io
