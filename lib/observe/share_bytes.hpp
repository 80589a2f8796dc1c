#pragma once
// Results as bytes between processes of one program: fields in a fixed order, without names.

#include <mha/system/error.hpp>
#include <mha/system/visit_entries.hpp>

#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace mha {

/// Visits a result's fields: writes them, or reads those of another process, so that one function
/// lists the fields for both.
class ShareBytes {
public:
  /// Writes.
  ShareBytes() = default;
  /// Reads. Throws Error if bytes are missing or left over: another program, or one with other
  /// input, has written them.
  explicit ShareBytes(std::string_view bytes) : writes_(false), rest_(bytes) {}

  bool writes() const { return writes_; }
  template <class T> void field(T& value) { fields(std::span(&value, 1)); }
  template <class T> void fields(std::span<T> values) {
    static_assert(std::is_trivially_copyable_v<T>);
    if (values.empty()) return;
    if (writes_) {
      written_.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
      return;
    }
    const std::string_view bytes = next(values.size_bytes());
    std::memcpy(values.data(), bytes.data(), bytes.size());
  }
  template <class Map, class Visit> void entries(Map& map, const Visit& visit) {
    visit_entries(*this, map, visit);
  }
  /// The written bytes.
  std::string take() { return std::move(written_); }
  /// Throws Error if bytes are left to read.
  void end() const {
    if (!rest_.empty()) fail("a rank has sent {} bytes too many", rest_.size());
  }

private:
  std::string_view next(std::size_t count) {
    if (count > rest_.size())
      fail("a rank has sent too little: {} bytes of {}", rest_.size(), count);
    const std::string_view front = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return front;
  }

  bool writes_ = true;
  std::string written_;
  std::string_view rest_;
};

} // namespace mha
