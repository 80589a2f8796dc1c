#include <mha/files/writer.hpp>

#include <mha/files/text.hpp>

#include <algorithm>

namespace mha::io {

WrittenExtents::WrittenExtents(std::string path, const std::vector<Item>& items)
    : path_(std::move(path)) {
  for (const Item& item : items)
    rows_.push_back({item.name, count_of(item.shape), size_of(item.dtype), {}});
}

void WrittenExtents::check(std::size_t item, std::size_t offset, std::size_t count) const {
  if (item >= rows_.size() || offset > rows_[item].count || count > rows_[item].count - offset)
    fail("{}: elements {} to {} are outside of item {}", shown(path_), offset, offset + count,
         item);
}

void WrittenExtents::add(std::size_t item, std::size_t offset, std::size_t count,
                         std::uint32_t crc) {
  Row& row = rows_[item];
  if (count == 0) return;
  const std::lock_guard lock(mutex_);
  row.extents.push_back({offset * row.element, count * row.element, crc});
}

std::vector<Extent> WrittenExtents::whole(std::size_t item) {
  Row& row = rows_[item];
  std::ranges::sort(row.extents, {}, &Extent::offset);
  std::uint64_t at = 0;
  const auto refuse = [&] {
    fail("{}: {} is not written once and whole: byte {}", shown(path_), shown(row.name), at);
  };
  for (const Extent& extent : row.extents) {
    if (extent.offset != at) refuse();
    at += extent.size;
  }
  if (at != row.count * row.element) refuse();
  return row.extents;
}

} // namespace mha::io
