#pragma once
// Writing tensors. All sizes are known in advance, so blocks can be written to their final offsets
// in any order and from several threads.

#include <mha/tensor/tensor.hpp>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace mha::io {

/// A tensor that will be written.
struct Item {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
};

/// The contents of a file that will be written.
struct Output {
  std::vector<Item> items;
  std::vector<std::pair<std::string, std::string>> scalars;             ///< settings
  std::vector<std::pair<std::string, std::vector<std::string>>> labels; ///< tokens
  /// The tokens of each batch item; all items have the same number.
  std::vector<std::pair<std::string, std::vector<std::vector<std::string>>>> item_labels{};
  /// The starting point of the run, as a word: the comment of an .npz, metadata in .safetensors.
  /// Other formats cannot hold it.
  std::string run{};
};

/// Takes the elements of every item, each exactly once; the file appears when it is complete. A
/// Writer that is destroyed before finish() creates no file and leaves the old one untouched.
class Writer {
public:
  virtual ~Writer() = default;
  /// Elements [offset, offset + count) of item `item`, already in the item's dtype. Thread-safe for
  /// disjoint ranges. Throws Error "PATH: cannot write: No space left on device".
  virtual void write(std::size_t item, std::size_t offset, const std::byte* data,
                     std::size_t count) = 0;
  /// Completes headers and checksums, closes, renames into place.
  virtual void finish() = 0;
};

/// Writes text or bytes (a table, a picture) to a temporary file, then renames it to `path`; "-" is
/// standard output. Throws ClosedPipe if the reader of a pipe has closed it.
void write_whole(const std::string& path, std::string_view bytes);

/// Standard output was closed by its reader (`| head -1`): not an error, the program ends quietly.
class ClosedPipe : public Error {
public:
  ClosedPipe() : Error("standard output was closed") {}
};

/// A contiguous part of an item's bytes, with its checksum in formats that have one.
struct WrittenRange {
  std::uint64_t offset = 0, size = 0;
  std::uint32_t crc = 0;
};

/// Records which parts of the items are written, to check that each element is written exactly
/// once.
class WrittenRanges {
public:
  WrittenRanges(std::string path, const std::vector<Item>& items);

  /// Throws Error unless elements [offset, offset + count) are in the item.
  void check(std::size_t item, std::size_t offset, std::size_t count) const;
  /// Records them as written. Thread-safe.
  void add(std::size_t item, std::size_t offset, std::size_t count, std::uint32_t crc = 0);
  /// The pieces of an item, sorted by offset; throws Error if elements are missing or overlap.
  std::vector<WrittenRange> whole(std::size_t item);

  std::size_t element_size(std::size_t item) const { return records_[item].element; }

private:
  struct ItemRecord {
    std::string name;
    std::size_t count = 0, element = 0;
    std::vector<WrittenRange> pieces;
  };
  std::string path_;
  std::vector<ItemRecord> records_;
  std::mutex mutex_;
};

} // namespace mha::io
