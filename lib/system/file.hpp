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
  /// `name`: as messages show it.
  Mapping(const std::byte* start, std::size_t size, const std::string& name);
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  struct Range {
    const std::byte* start;
    std::size_t size;
    std::string message; ///< made in advance, since a handler must not allocate memory
  };

private:
  SignalList<Range>::Place& place_;
};

/// "PATH: became shorter while it was read" for an address in a mapped file, else nullptr. For
/// handlers of SIGBUS; the library installs none.
const char* shortened_file_at(const void* address) noexcept;

} // namespace mha
