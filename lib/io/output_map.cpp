#include "io/output_map.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

namespace mha::io {

namespace {

constexpr std::uint64_t smallest_file = std::uint64_t{16} << 20;
constexpr std::size_t smallest_piece = std::size_t{64} << 10;
constexpr std::size_t step = std::size_t{512} << 10; // the pages of so much are in the cache

// Linux 5.14; older kernels refuse it, and then nothing is written through the map.
constexpr int populate_write = 23; // MADV_POPULATE_WRITE

/// Those it was measured on. Where a file lies on another machine, each page may be a message.
bool maps_well(int fd) {
  constexpr auto ext4 = 0xef53, tmpfs = 0x01021994;
  struct statfs status {};
  return ::fstatfs(fd, &status) == 0 && (status.f_type == ext4 || status.f_type == tmpfs);
}

} // namespace

OutputMap::OutputMap(int fd, std::uint64_t size) {
  if (size < smallest_file || !maps_well(fd)) return;
  void* const start = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (start == MAP_FAILED) return;
  start_ = static_cast<std::byte*>(start);
  size_ = size;
}

OutputMap::~OutputMap() {
  if (start_) ::munmap(start_, size_);
}

OutputMap::OutputMap(OutputMap&& other) noexcept
    : start_(std::exchange(other.start_, nullptr)), size_(std::exchange(other.size_, 0)) {}

OutputMap& OutputMap::operator=(OutputMap&& other) noexcept {
  std::swap(start_, other.start_);
  std::swap(size_, other.size_);
  return *this;
}

bool OutputMap::write(std::uint64_t offset, const void* data, std::size_t size) {
  if (!start_ || size < smallest_piece || offset > size_ || size > size_ - offset) return false;
  static const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const auto* from = static_cast<const std::byte*>(data);
  for (std::size_t n = 0; size > 0; offset += n, from += n, size -= n) {
    n = std::min(size, step);
    std::byte* const first = start_ + offset / page * page;
    const auto length = static_cast<std::size_t>(start_ + offset + n - first);
    if (::madvise(first, length, populate_write) != 0) return false;
    std::memcpy(start_ + offset, from, n);
    // They are the file's now, not this program's memory.
    ::madvise(first, length, MADV_DONTNEED);
  }
  return true;
}

} // namespace mha::io
