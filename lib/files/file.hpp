#pragma once
// An open file that closes itself, and the system's word for what went wrong.

#include <mha/files/signal_list.hpp>

#include <cstddef>
#include <string>
#include <utility>

namespace mha::io {

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
  /// Hands the descriptor on; the caller closes it.
  int release() { return std::exchange(fd_, -1); }

private:
  int fd_ = -1;
};

/// "No space left on device" of ENOSPC.
std::string reason(int code);

/// A mapped file, noted as long as this lives.
class Mapping {
public:
  Mapping(const std::byte* start, std::size_t size, const std::string& name);
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  struct Range {
    const std::byte* start;
    std::size_t size;
    std::string message; ///< made beforehand: a handler must not ask for memory
  };

private:
  SignalList<Range>::Place& place_;
};

/// "PATH: became shorter while it was read" for an address in a mapped file, else nullptr. For
/// handlers of SIGBUS; the library installs none.
const char* shortened_file_at(const void* address) noexcept;

} // namespace mha::io
