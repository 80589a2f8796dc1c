#pragma once
// A picture in memory: rectangles and text.

#include <mha/render/colormap.hpp>

#include <string_view>
#include <vector>

namespace mha::render {

/// The point of a text, along its line, that is at its place.
enum class Anchor : std::uint8_t { start, middle, end };

/// Red, green, blue of every pixel, row after row; white at first.
class Canvas {
public:
  Canvas(std::size_t width, std::size_t height);

  std::size_t width() const { return width_; }
  std::size_t height() const { return height_; }
  const std::vector<std::uint8_t>& pixels() const { return pixels_; }
  Rgb at(std::size_t x, std::size_t y) const;
  void set(std::size_t x, std::size_t y, Rgb color);

  /// Pixels [x, x + width) × [y, y + height), without those outside the picture.
  void fill(std::size_t x, std::size_t y, std::size_t width, std::size_t height, Rgb color);
  /// The look of masked cells: grey, with slanted lines that continue through neighbouring cells,
  /// `zoom` times as thick and as far apart.
  void hatch(std::size_t x, std::size_t y, std::size_t width, std::size_t height, double zoom = 1);
  /// Text whose baseline is at y; `vertical`: it runs upwards, its baseline at x.
  void text(double x, double y, std::string_view text, double size, Rgb color, Anchor anchor,
            bool vertical);

private:
  std::size_t width_, height_;
  std::vector<std::uint8_t> pixels_;
};

} // namespace mha::render
