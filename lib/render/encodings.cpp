#include <mha/render/encodings.hpp>

#include <mha/system/error.hpp>

#include <png.h>

#include <cstdint>

namespace mha::render {

std::string png_bytes(std::span<const std::uint8_t> pixels, std::size_t width, std::size_t height,
                      std::size_t channels) {
  if (pixels.size() != width * height * channels)
    fail("{} bytes for a picture of {} × {}", pixels.size(), width, height);
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(width);
  image.height = static_cast<png_uint_32>(height);
  image.format = channels == 4 ? PNG_FORMAT_RGBA : PNG_FORMAT_RGB;
  // Cells of one colour repeat: filters, which help with photographs, take most of the time and make
  // the file larger.
  image.flags = PNG_IMAGE_FLAG_FAST;
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::string bytes(size, '\0');
  if (!png_image_write_to_memory(&image, bytes.data(), &size, 0, pixels.data(), 0, nullptr))
    fail("the picture cannot be written as PNG: {}", image.message);
  bytes.resize(size);
  return bytes;
}

std::string base64(std::string_view bytes) {
  static constexpr std::string_view alphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    for (std::size_t j = 0; j < 3; ++j)
      group = group << 8 | (i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : 0U);
    for (std::size_t j = 0; j < 4; ++j)
      out += i + j > bytes.size() ? '=' : alphabet[group >> (18 - 6 * j) & 63];
  }
  return out;
}

} // namespace mha::render
