#pragma once
// Writing tensors: every size is known before the first byte, so blocks can be written in place, in
// any order, from several threads.

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

/// Everything that a file will hold.
struct Output {
  std::vector<Item> items;
  std::vector<std::pair<std::string, std::string>> scalars;             ///< settings
  std::vector<std::pair<std::string, std::vector<std::string>>> labels; ///< tokens
  /// Tokens of each batch item, equally many.
  std::vector<std::pair<std::string, std::vector<std::vector<std::string>>>> item_labels{};
  /// What the run starts from, in a word, beside the arrays: the comment of an .npz, metadata of
  /// .safetensors. Other formats have no place for it.
  std::string run{};
};

/// Takes the elements of every item, each exactly once, and makes the file appear when it is whole.
/// A Writer that is destroyed before finish() leaves nothing behind and the old file untouched.
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

/// Writes text or bytes (a table, a picture) beside `path` and renames it; "-" is standard output.
/// A closed pipe throws ClosedPipe.
void write_whole(const std::string& path, std::string_view bytes);

/// Standard output was closed by its reader (`| head -1`): not an error, the program ends quietly.
class ClosedPipe : public Error {
public:
  ClosedPipe() : Error("standard output was closed") {}
};

/// A run of an item's bytes and its checksum, for formats that have one.
struct WrittenPiece {
  std::uint64_t offset = 0, size = 0;
  std::uint32_t crc = 0;
};

/// A record of the written parts of items: each element is written exactly once, by any thread.
class WrittenPieces {
public:
  WrittenPieces(std::string path, const std::vector<Item>& items);

  /// Checks that elements [offset, offset + count) lie in the item.
  void check(std::size_t item, std::size_t offset, std::size_t count) const;
  /// Records them as written. Thread-safe.
  void add(std::size_t item, std::size_t offset, std::size_t count, std::uint32_t crc = 0);
  /// The pieces of an item by their offsets; throws Error where elements are missing or overlap.
  std::vector<WrittenPiece> whole(std::size_t item);

  std::size_t element_size(std::size_t item) const { return records_[item].element; }

private:
  struct ItemRecord {
    std::string name;
    std::size_t count = 0, element = 0;
    std::vector<WrittenPiece> pieces;
  };
  std::string path_;
  std::vector<ItemRecord> records_;
  std::mutex mutex_;
};

} // namespace mha::io
