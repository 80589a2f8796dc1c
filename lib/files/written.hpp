#pragma once
// A record of the written parts of items: each element is written exactly once, by any thread.

#include <mha/files/writer.hpp>

#include <cstdint>
#include <mutex>

namespace mha::io {

/// A run of an item's bytes and its checksum, for formats that have one.
struct Extent {
  std::uint64_t offset = 0, size = 0;
  std::uint32_t crc = 0;
};

class WrittenExtents {
public:
  WrittenExtents(std::string path, const std::vector<Item>& items);

  /// Checks that elements [offset, offset + count) lie in the item.
  void check(std::size_t item, std::size_t offset, std::size_t count) const;
  /// Records them as written. Thread-safe.
  void add(std::size_t item, std::size_t offset, std::size_t count, std::uint32_t crc = 0);
  /// The extents of an item by their offsets; throws Error where elements are missing or overlap.
  std::vector<Extent> whole(std::size_t item);

  std::size_t element_size(std::size_t item) const { return rows_[item].element; }

private:
  struct Row {
    std::string name;
    std::size_t count = 0, element = 0;
    std::vector<Extent> extents;
  };
  std::string path_;
  std::vector<Row> rows_;
  std::mutex mutex_;
};

} // namespace mha::io
