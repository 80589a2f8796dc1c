#pragma once
// Protocol buffers on the wire: a message is a row of fields, each a key (number · 8 + type) and a
// value. https://protobuf.dev/programming-guides/encoding

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
  std::string_view bytes;  ///< of all others, where they lie

  std::int64_t integer() const { return static_cast<std::int64_t>(value); }
};

/// Reads the fields of one message from its front; every step is checked against its end.
class WireReader {
public:
  /// `where` begins messages, `start` is the file's first byte, so that they say the offset.
  WireReader(const std::string& where, std::string_view message, const char* start)
      : where_(where), at_(message.data()), end_(at_ + message.size()), start_(start) {}

  /// The next field, or nothing at the end. Throws Error for what is no field or is cut short.
  std::optional<WireField> next();
  /// The message of a field; throws Error where it is of another type.
  WireReader message(const WireField& field) const;
  /// A field's text, fit for a name; throws Error where it is no UTF-8 or of another type.
  std::string_view text(const WireField& field, std::string_view what) const;
  std::string_view bytes(const WireField& field, std::string_view what) const;
  std::int64_t integer(const WireField& field, std::string_view what) const;
  float number(const WireField& field, std::string_view what) const;
  /// The integers of a repeated field, packed into one field or each one of its own.
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

/// The varint at the front of `bytes`, which loses it; nothing where it is cut short or longer than
/// 64 bits.
std::optional<std::uint64_t> take_varint(std::string_view& bytes);

} // namespace mha::io
