#include <mha/files/output_map.hpp>

#include <algorithm>
#include <cstring>

#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

namespace mha::io {

namespace {

constexpr std::uint64_t smallest_file = std::uint64_t{16} << 20;
constexpr std::size_t smallest_piece = std::size_t{64} << 10;
constexpr std::size_t step = std::size_t{1} << 20; // bytes at once: 128 KiB take a fifth longer

constexpr std::size_t most_present = std::size_t{4} << 20;

// Linux 5.14; older kernels refuse it, and then nothing is written through the map.
constexpr int populate_write = 23; // MADV_POPULATE_WRITE

/// File systems on which a map is known to be faster than write(). On one of a network each page
/// may be a message to another machine.
bool maps_well(int fd) {
  constexpr auto ext4 = 0xef53, tmpfs = 0x01021994;
  struct statfs status {};
  return ::fstatfs(fd, &status) == 0 && (status.f_type == ext4 || status.f_type == tmpfs);
}

} // namespace

void OutputMap::open(int fd, std::uint64_t size) {
  close();
  if (size < smallest_file || !maps_well(fd)) return;
  void* const start = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (start == MAP_FAILED) return;
  start_ = static_cast<std::byte*>(start);
  size_ = size;
}

void OutputMap::close() {
  if (start_) ::munmap(start_, size_);
  start_ = nullptr;
}

bool OutputMap::write(std::uint64_t offset, const void* data, std::size_t size) {
  if (!start_ || size < smallest_piece || offset > size_ || size > size_ - offset) return false;
  static const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const auto* from = static_cast<const std::byte*>(data);
  const std::size_t written = size;
  for (std::size_t n = 0; size > 0; offset += n, from += n, size -= n) {
    n = std::min(size, step);
    std::byte* const first = start_ + offset / page * page;
    const auto length = static_cast<std::size_t>(start_ + offset + n - first);
    if (::madvise(first, length, populate_write) != 0) return false;
    std::memcpy(start_ + offset, from, n);
  }
  // Written pages stay in the file's cache, so they need not count as this program's memory.
  // Unmapping them stops every thread for a moment, so it is not done after each piece. A page that
  // another thread is writing is mapped again when it is touched.
  if ((present_ += written) > most_present) {
    present_ = 0;
    ::madvise(start_, size_, MADV_DONTNEED);
  }
  return true;
}

} // namespace mha::io
