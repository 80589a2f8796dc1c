#pragma once
// The wire format of protocol buffers: a message is a list of fields, each a key (number · 8 +
// type) and a value. https://protobuf.dev/programming-guides/encoding

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mha::io {

/// Types of fields on the wire that proto3 writes.
enum class WireType : std::uint8_t { varint = 0, eight_bytes = 1, bytes = 2, four_bytes = 5 };

struct WireField {
  std::uint32_t number = 0;
  WireType type = WireType::varint;
  std::uint64_t value = 0; ///< of a varint
  std::string_view bytes;  ///< of all other types, not copied

  std::int64_t integer() const { return static_cast<std::int64_t>(value); }
};

/// Reads the fields of one message from its front; every step is checked against its end.
class WireReader {
public:
  /// `where` begins messages; `start` is the file's first byte, for offsets in messages.
  WireReader(const std::string& where, std::string_view message, const char* start)
      : where_(where), at_(message.data()), end_(at_ + message.size()), start_(start) {}

  /// The next field, or nothing at the end. Throws Error for an invalid or truncated field.
  std::optional<WireField> next();
  /// The message of a field; throws Error if it is of another type.
  WireReader message(const WireField& field) const;
  /// A field's text; throws Error if it is not UTF-8 or of another type.
  std::string_view text(const WireField& field, std::string_view what) const;
  std::string_view bytes(const WireField& field, std::string_view what) const;
  std::int64_t integer(const WireField& field, std::string_view what) const;
  float number(const WireField& field, std::string_view what) const;
  /// The integers of a repeated field, packed into one field or in a field each.
  void add_integers(const WireField& field, std::string_view what,
                    std::vector<std::int64_t>& into) const;

  const std::string& where() const { return where_; }
  const char* start() const { return start_; }

private:
  std::size_t offset() const { return static_cast<std::size_t>(at_ - start_); }
  std::uint64_t varint();
  [[noreturn]] void refuse(const WireField& field, std::string_view what) const;

  const std::string& where_;
  const char *at_, *end_, *start_;
};

/// Removes a varint from the front of `bytes`; nothing if it is truncated or longer than 64 bits.
std::optional<std::uint64_t> take_varint(std::string_view& bytes);

} // namespace mha::io
