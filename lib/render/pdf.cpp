#include <mha/render/pdf.hpp>

#include <mha/observe/packing.hpp>
#include <mha/system/characters.hpp>

#include <fmt/format.h>

#include <cmath>
#include <iterator>

namespace mha::render {

std::size_t PdfFile::reserve() {
  objects_.emplace_back();
  return objects_.size();
}

std::size_t PdfFile::add(std::string body) {
  objects_.push_back(std::move(body));
  return objects_.size();
}

void PdfFile::set(std::size_t object, std::string body) {
  objects_.at(object - 1) = std::move(body);
}

std::size_t PdfFile::add_stream(std::string_view entries, const std::string& bytes) {
  const std::size_t object = reserve();
  set_stream(object, entries, bytes);
  return object;
}

void PdfFile::set_stream(std::size_t object, std::string_view entries, const std::string& bytes) {
  const std::string packed = deflated(bytes);
  set(object, fmt::format("<< {} /Filter /FlateDecode /Length {} >>\nstream\n{}\nendstream",
                          entries, packed.size(), packed));
}

std::string PdfFile::bytes(std::size_t root, std::size_t info) const {
  std::string out = "%PDF-1.4\n%\xe2\xe3\xcf\xd3\n"; // bytes above 127: no text file
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < objects_.size(); ++i) {
    places.push_back(out.size());
    fmt::format_to(std::back_inserter(out), "{} 0 obj\n{}\nendobj\n", i + 1, objects_[i]);
  }
  const std::size_t table = out.size();
  fmt::format_to(std::back_inserter(out), "xref\n0 {}\n0000000000 65535 f \n", places.size() + 1);
  for (std::size_t place : places)
    fmt::format_to(std::back_inserter(out), "{:010} 00000 n \n", place);
  fmt::format_to(std::back_inserter(out),
                 "trailer\n<< /Size {} /Root {} 0 R /Info {} 0 R >>\nstartxref\n{}\n%%EOF\n",
                 places.size() + 1, root, info, table);
  return out;
}

std::string pdf_number(double value) {
  const double rounded = std::round(value * 1000) / 1000;
  std::string text = fmt::format("{:.3f}", rounded == 0 ? 0 : rounded);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text;
}

std::string utf16_of(std::string_view utf8) {
  std::string out;
  for (const std::uint32_t code : utf32_of(utf8))
    if (code < 0x10000)
      fmt::format_to(std::back_inserter(out), "{:04X}", code);
    else
      fmt::format_to(std::back_inserter(out), "{:04X}{:04X}", 0xd800 + ((code - 0x10000) >> 10),
                     0xdc00 + ((code - 0x10000) & 0x3ff));
  return out;
}

} // namespace mha::render
