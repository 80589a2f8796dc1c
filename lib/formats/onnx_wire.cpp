#include <mha/formats/onnx_wire.hpp>

#include <mha/files/text.hpp>
#include <mha/system/unaligned.hpp>

#include <fmt/format.h>

namespace mha::io {

std::optional<std::uint64_t> take_varint(std::string_view& bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes.size() && i < 10; ++i) {
    const auto byte = static_cast<unsigned char>(bytes[i]);
    if (i == 9 && byte > 1) return std::nullopt;
    value |= static_cast<std::uint64_t>(byte & 0x7F) << (7 * i);
    if (byte & 0x80) continue;
    bytes.remove_prefix(i + 1);
    return value;
  }
  return std::nullopt;
}

std::uint64_t WireReader::varint() {
  std::string_view rest(at_, static_cast<std::size_t>(end_ - at_));
  const auto value = take_varint(rest);
  if (!value) {
    if (rest.size() >= 10) fail("{}: no number of 64 bits at byte {}", where_, offset());
    fail("{}: cut short at byte {}: a number is not at its end", where_, offset());
  }
  at_ = rest.data();
  return *value;
}

std::optional<WireField> WireReader::next() {
  if (at_ == end_) return std::nullopt;
  const std::size_t first = offset();
  const std::uint64_t key = varint();
  WireField field;
  if (key >> 3 == 0 || key >> 3 > 0x1FFFFFFF)
    fail("{}: no field of a message at byte {}: its number is {}", where_, first, key >> 3);
  field.number = static_cast<std::uint32_t>(key >> 3);
  field.type = static_cast<WireType>(key & 7);
  std::uint64_t size = 0;
  switch (field.type) {
  case WireType::varint:
    field.value = varint();
    return field;
  case WireType::eight_bytes:
    size = 8;
    break;
  case WireType::four_bytes:
    size = 4;
    break;
  case WireType::bytes:
    size = varint();
    break;
  default:
    fail("{}: no field of a message at byte {}: type {} on the wire", where_, first, key & 7);
  }
  const auto left = static_cast<std::uint64_t>(end_ - at_);
  if (size > left)
    fail("{}: cut short: field {} at byte {} has {} bytes, {} are left", where_, field.number,
         first, size, left);
  field.bytes = {at_, size};
  at_ += size;
  return field;
}

void WireReader::refuse(const WireField& field, std::string_view what) const {
  fail("{}: {} before byte {} is of type {} on the wire", where_, what, offset(),
       static_cast<int>(field.type));
}

WireReader WireReader::message(const WireField& field) const {
  return {where_, bytes(field, "a message"), start_};
}

std::string_view WireReader::bytes(const WireField& field, std::string_view what) const {
  if (field.type != WireType::bytes) refuse(field, what);
  return field.bytes;
}

std::string_view WireReader::text(const WireField& field, std::string_view what) const {
  const std::string_view text = bytes(field, what);
  if (invalid_utf8(text) != std::string_view::npos)
    fail("{}: {} before byte {} is not UTF-8", where_, what, offset());
  return text;
}

std::int64_t WireReader::integer(const WireField& field, std::string_view what) const {
  if (field.type != WireType::varint) refuse(field, what);
  return field.integer();
}

float WireReader::number(const WireField& field, std::string_view what) const {
  if (field.type != WireType::four_bytes) refuse(field, what);
  return unaligned<float>(field.bytes.data());
}

void WireReader::add_integers(const WireField& field, std::string_view what,
                              std::vector<std::int64_t>& into) const {
  if (field.type == WireType::varint) {
    into.push_back(field.integer());
    return;
  }
  for (std::string_view rest = bytes(field, what); !rest.empty();) {
    const auto value = take_varint(rest);
    if (!value) fail("{}: {} before byte {} ends within a number", where_, what, offset());
    into.push_back(static_cast<std::int64_t>(*value));
  }
}

} // namespace mha::io
