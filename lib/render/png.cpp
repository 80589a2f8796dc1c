#include <mha/render/png.hpp>

#include <mha/system/error.hpp>

#include <png.h>

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
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::string bytes(size, '\0');
  if (!png_image_write_to_memory(&image, bytes.data(), &size, 0, pixels.data(), 0, nullptr))
    fail("the picture cannot be written as PNG: {}", image.message);
  bytes.resize(size);
  return bytes;
}

} // namespace mha::render
