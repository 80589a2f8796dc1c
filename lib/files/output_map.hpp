#pragma once
// A file that is written, mapped: several threads copy into it at once, where write() lets one in
// after the other and has them wait.

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace mha::io {

class OutputMap {
public:
  OutputMap() = default;
  OutputMap(const OutputMap&) = delete;
  OutputMap& operator=(const OutputMap&) = delete;
  ~OutputMap() { close(); }

  /// Maps the `size` bytes that the file has, if it is large and lies on a file system where that
  /// is no slower than writing; else maps nothing.
  void open(int fd, std::uint64_t size);
  void close();

  /// Whether the bytes are in the file now. If not, write() has to do it, or says why it cannot:
  /// the map, too, finds the disk full before it copies, not while.
  bool write(std::uint64_t offset, const void* data, std::size_t size);

private:
  std::byte* start_ = nullptr;
  std::size_t size_ = 0;
  std::atomic<std::size_t> present_ = 0; ///< bytes whose pages this program still counts as its own
};

} // namespace mha::io
