#pragma once
// PDF: objects to the bytes of a file (ISO 32000-1; the features of PDF 1.4 suffice).

#include <string>
#include <string_view>
#include <vector>

namespace mha::render {

/// Objects that name each other by number, from 1 on, and the table that finds them.
class PdfFile {
public:
  /// The number of an object that is given later, by set().
  std::size_t reserve();
  std::size_t add(std::string body);
  void set(std::size_t object, std::string body);
  /// A stream, deflated; `entries` of its dictionary come before its length: "/Type /XObject".
  std::size_t add_stream(std::string_view entries, const std::string& bytes);
  void set_stream(std::size_t object, std::string_view entries, const std::string& bytes);

  /// The file; `root` is its catalogue and `info` its information dictionary.
  std::string bytes(std::size_t root, std::size_t info) const;

private:
  std::vector<std::string> objects_;
};

/// "12.5", "0.004": a number as PDF writes it, without exponents.
std::string pdf_number(double value);
/// "0041D83DDE00": a text as UTF-16, in hexadecimal digits.
std::string utf16_of(std::string_view utf8);

} // namespace mha::render
