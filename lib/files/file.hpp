#pragma once
// An open file that closes itself, and the system's word for what went wrong.

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

} // namespace mha::io
