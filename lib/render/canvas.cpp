#include <mha/render/canvas.hpp>

#include <mha/render/font.hpp>
#include <mha/render/map.hpp>

#include <algorithm>
#include <cmath>

namespace mha::render {

Canvas::Canvas(std::size_t width, std::size_t height)
    : width_(width), height_(height), pixels_(width * height * 3, 0xff) {}

Rgb Canvas::at(std::size_t x, std::size_t y) const {
  const std::uint8_t* pixel = &pixels_[(y * width_ + x) * 3];
  return {pixel[0], pixel[1], pixel[2]};
}

void Canvas::set(std::size_t x, std::size_t y, Rgb color) {
  if (x >= width_ || y >= height_) return;
  std::uint8_t* pixel = &pixels_[(y * width_ + x) * 3];
  pixel[0] = color.red, pixel[1] = color.green, pixel[2] = color.blue;
}

void Canvas::fill(std::size_t x, std::size_t y, std::size_t width, std::size_t height, Rgb color) {
  for (std::size_t row = y; row < std::min(y + height, height_); ++row)
    for (std::size_t col = x; col < std::min(x + width, width_); ++col) set(col, row, color);
}

void Canvas::hatch(std::size_t x, std::size_t y, std::size_t width, std::size_t height,
                   double zoom) {
  const auto thick = static_cast<std::size_t>(std::max(1L, std::lround(zoom))),
             distance = std::max<std::size_t>(6 * thick, 6);
  for (std::size_t row = y; row < std::min(y + height, height_); ++row)
    for (std::size_t col = x; col < std::min(x + width, width_); ++col)
      set(col, row, (col + row) % distance < thick ? masked_line : masked_ground);
}

void Canvas::text(double x, double y, std::string_view text, double size, Rgb color, Anchor anchor,
                  bool vertical) {
  const Font& font = Font::instance();
  const TextPixels drawn = font.draw(text, size);
  const double length = font.width(text, size);
  const double before = anchor == Anchor::start    ? 0
                        : anchor == Anchor::middle ? length / 2
                                                   : length;
  const double left = std::round(vertical ? x : x - before),
               top = std::round(vertical ? y + before : y);
  const double ascent = font.ascent(size);
  for (std::size_t row = 0; row < drawn.height; ++row)
    for (std::size_t col = 0; col < drawn.width; ++col) {
      const std::uint8_t coverage = drawn.coverage[row * drawn.width + col];
      if (coverage == 0) continue;
      const double along = static_cast<double>(col), across = static_cast<double>(row) - ascent;
      const double to_x = vertical ? left + across : left + along,
                   to_y = vertical ? top - along : top + across;
      if (to_x < 0 || to_y < 0 || to_x >= static_cast<double>(width_) ||
          to_y >= static_cast<double>(height_))
        continue;
      const auto column = static_cast<std::size_t>(to_x), line = static_cast<std::size_t>(to_y);
      set(column, line, mixed(at(column, line), color, coverage / 255.0));
    }
}

} // namespace mha::render
