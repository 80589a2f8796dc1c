#pragma once
// Pictures that the program made, read back by other code than wrote them.

#include <mha/render/colormap.hpp>

#include <string>
#include <vector>

namespace mha::test {

/// A PNG, decoded by libpng.
struct Pixels {
  std::size_t width = 0, height = 0;
  std::vector<std::uint8_t> rgba;

  render::Rgb at(std::size_t x, std::size_t y) const {
    const std::uint8_t* pixel = &rgba[(y * width + x) * 4];
    return {pixel[0], pixel[1], pixel[2]};
  }
  bool transparent(std::size_t x, std::size_t y) const {
    return rgba[(y * width + x) * 4 + 3] == 0;
  }
};
/// Throws std::runtime_error for what is no PNG.
Pixels decode_png(const std::string& bytes);
std::string decode_base64(const std::string& text);

/// What is wrong with a text as XML: tags that are not closed, attributes without quotes, bare &
/// and
/// <. "" if nothing is.
std::string xml_fault(const std::string& text);

} // namespace mha::test
