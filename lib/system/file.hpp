#pragma once
// Handles of open and mapped files, and the system's error texts.

#include <mha/system/signal_list.hpp>

#include <cstddef>
#include <string>
#include <utility>

namespace mha {

/// Owns a file descriptor.
class File {
public:
  File() = default;
  explicit File(int fd) : fd_(fd) {}
  File(File&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  File& operator=(File&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~File();
  int fd() const { return fd_; }
  /// Gives up ownership of the descriptor; the caller closes it.
  int release() { return std::exchange(fd_, -1); }

private:
  int fd_ = -1;
};

/// "No space left on device" for ENOSPC.
std::string reason(int code);

/// Registers a mapped file for its lifetime. If the file becomes shorter while it is read, the
/// system sends SIGBUS, and the handler reports the file by its address.
class Mapping {
public:
  /// `name`: as messages show it. The file stays open for read_mapped, unless the process has many
  /// files open.
  Mapping(const std::byte* start, std::size_t size, File file, const std::string& name);
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  struct Range {
    const std::byte* start;
    std::size_t size;
    File file;
    std::string message; ///< made in advance, since a handler must not allocate memory
  };

private:
  SignalList<Range>::Place& place_;
};

/// Whether the bytes at `from` are of a mapped file that read_mapped can read.
bool is_mapped(const std::byte* from);

/// Reads `size` bytes at `from`, which are of a mapped file, through the file into `to`. For bytes
/// that are read once: the first touch of a page of a mapping costs the system as much as copying
/// some of them, on virtual machines several. Throws Error if the file became shorter.
void read_mapped(const std::byte* from, std::size_t size, std::byte* to);

/// Starts reading what read_mapped will be asked for: it gets no more than that from a disk, where
/// a system that guesses would read the neighbours of an expert, too.
void will_read_mapped(const std::byte* from, std::size_t size);

/// "PATH: became shorter while it was read" for an address in a mapped file, else nullptr. For
/// handlers of SIGBUS; the library installs none.
const char* shortened_file_at(const void* address) noexcept;

} // namespace mha
