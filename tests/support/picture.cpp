#include "support/picture.hpp"

#include <png.h>

#include <cctype>
#include <regex>
#include <stdexcept>

namespace mha::test {

Pixels decode_png(const std::string& bytes) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  if (!png_image_begin_read_from_memory(&image, bytes.data(), bytes.size()))
    throw std::runtime_error(image.message);
  image.format = PNG_FORMAT_RGBA;
  Pixels pixels{image.width, image.height, {}};
  pixels.rgba.resize(PNG_IMAGE_SIZE(image));
  if (!png_image_finish_read(&image, nullptr, pixels.rgba.data(), 0, nullptr))
    throw std::runtime_error(image.message);
  return pixels;
}

std::string decode_base64(const std::string& text) {
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  std::uint32_t bits = 0;
  int count = 0;
  for (char c : text) {
    const std::size_t digit = digits.find(c);
    if (digit == std::string::npos) break; // the padding
    bits = bits << 6 | static_cast<std::uint32_t>(digit);
    if ((count += 6) < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 0xff);
  }
  return bytes;
}

std::string xml_fault(const std::string& text) {
  static const std::regex tag(R"(^<(/?)([A-Za-z][\w:.-]*)((?:\s+[\w:-]+="[^"<&]*")*)\s*(/?)>)");
  static const std::regex entity("^&(amp|lt|gt|quot|apos|#[0-9]+);");
  std::vector<std::string> open;
  for (std::size_t at = 0; at < text.size();) {
    const std::string here = text.substr(at, 40);
    const auto from = text.begin() + static_cast<std::ptrdiff_t>(at);
    if (text[at] == '&') {
      if (!std::regex_search(here, entity)) return "a bare &: " + here;
    } else if (text[at] == '<') {
      const std::size_t end = text.find('>', at);
      if (end == std::string::npos) return "a tag that does not end: " + here;
      // Long attributes (pictures) would be too much for the regular expression.
      std::string whole(from, text.begin() + static_cast<std::ptrdiff_t>(end) + 1);
      if (const std::size_t data = whole.find("base64,"); data != std::string::npos)
        whole.erase(data, whole.find('"', data) - data);
      std::smatch match;
      if (whole.size() > 20000) whole.erase(200, whole.size() - 300);
      if (!std::regex_search(whole, match, tag)) return "no tag: " + here;
      if (match[1] == "/") {
        if (open.empty() || open.back() != match[2]) return "closes what is not open: " + here;
        open.pop_back();
      } else if (match[4] != "/") {
        open.push_back(match[2]);
      }
      at = end + 1;
      continue;
    } else if (open.empty() && !std::isspace(static_cast<unsigned char>(text[at]))) {
      return "text outside: " + here;
    }
    ++at;
  }
  return open.empty() ? "" : "not closed: " + open.back();
}

} // namespace mha::test
