#pragma once
// Results as bytes between processes of one program: written and read in the same order, without
// names.

#include <mha/system/error.hpp>

#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace mha {

class ShareWriter {
public:
  template <class T> void add(std::span<const T> values) {
    static_assert(std::is_trivially_copyable_v<T>);
    bytes_.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
  }
  template <class T> void add(const T& value) { add(std::span<const T>(&value, 1)); }
  /// Bytes with their number before them.
  void add_text(std::string_view text) {
    add(text.size());
    bytes_ += text;
  }
  std::string take() { return std::move(bytes_); }

private:
  std::string bytes_;
};

/// Throws Error where bytes are missing, or are left at the end: then another program, or one with
/// other input, has written them.
class ShareReader {
public:
  explicit ShareReader(std::string_view bytes) : bytes_(bytes) {}
  bool at_end() const { return bytes_.empty(); }

  template <class T> void take(std::span<T> values) {
    static_assert(std::is_trivially_copyable_v<T>);
    const std::string_view bytes = next(values.size_bytes());
    if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  }
  template <class T> T take() {
    T value{};
    take(std::span<T>(&value, 1));
    return value;
  }
  std::string_view take_text() { return next(take<std::size_t>()); }
  void end() const {
    if (!at_end()) fail("a rank has sent {} bytes too many", bytes_.size());
  }

private:
  std::string_view next(std::size_t count) {
    if (count > bytes_.size())
      fail("a rank has sent too little: {} bytes of {}", bytes_.size(), count);
    const std::string_view front = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return front;
  }
  std::string_view bytes_;
};

} // namespace mha
