#include <mha/files/writer.hpp>

#include <mha/files/text.hpp>

#include <algorithm>

namespace mha::io {

WrittenRanges::WrittenRanges(std::string path, const std::vector<Item>& items)
    : path_(std::move(path)) {
  for (const Item& item : items)
    records_.push_back({item.name, count_of(item.shape), size_of(item.dtype), {}});
}

void WrittenRanges::check(std::size_t item, std::size_t offset, std::size_t count) const {
  if (item >= records_.size() || offset > records_[item].count ||
      count > records_[item].count - offset)
    fail("{}: elements {} to {} are outside of item {}", shown(path_), offset, offset + count,
         item);
}

void WrittenRanges::add(std::size_t item, std::size_t offset, std::size_t count,
                        std::uint32_t crc) {
  ItemRecord& record = records_[item];
  if (count == 0) return;
  const std::lock_guard lock(mutex_);
  record.pieces.push_back({offset * record.element, count * record.element, crc});
}

std::vector<WrittenRange> WrittenRanges::whole(std::size_t item) {
  ItemRecord& record = records_[item];
  std::ranges::sort(record.pieces, {}, &WrittenRange::offset);
  std::uint64_t at = 0;
  const auto refuse = [&] {
    fail("{}: {} is not written once and whole: byte {}", shown(path_), shown(record.name), at);
  };
  for (const WrittenRange& piece : record.pieces) {
    if (piece.offset != at) refuse();
    at += piece.size;
  }
  if (at != record.count * record.element) refuse();
  return record.pieces;
}

} // namespace mha::io
