#include <mha/render/encodings.hpp>
#include <mha/render/painter.hpp>
#include <mha/system/error.hpp>

#include <algorithm>

#include <cmath>

namespace mha::render {

namespace {

constexpr double most_zoomed_pixels = 1e8;

/// A layout's pixels on a canvas that is `zoom` times as large: edges are rounded, so that what
/// touches there touches here.
class Zoomed : public Painter {
public:
  Zoomed(const MapLayout& layout, double zoom)
      : zoom_(zoom), canvas_(at(layout.width), at(layout.height)) {}

  void cells(const PanelMark& mark, const MapPanel& panel, const MapStyle& style) override {
    for (std::size_t row = 0; row < panel.map.rows; ++row)
      for (std::size_t col = 0; col < panel.map.cols; ++col) {
        const BoxMark box{mark.x + col * mark.cell_width, mark.y + row * mark.cell_height,
                          mark.cell_width, mark.cell_height};
        if (panel.map.is_masked(row, col))
          hatch(box);
        else
          fill(box, cell_color(panel, style, row, col));
      }
  }
  void fill(const BoxMark& box, Rgb color) override {
    canvas_.fill(at(box.x), at(box.y), at(box.x + box.width) - at(box.x),
                 at(box.y + box.height) - at(box.y), color);
  }
  void hatch(const BoxMark& box) override {
    canvas_.hatch(at(box.x), at(box.y), at(box.x + box.width) - at(box.x),
                  at(box.y + box.height) - at(box.y), zoom_);
  }
  void bar(const BoxMark& bar, const MapStyle& style) override {
    const std::size_t top = at(bar.y), height = at(bar.y + bar.height) - top;
    for (std::size_t i = 0; i < height; ++i) {
      const double place = 1 - (static_cast<double>(i) + 0.5) / static_cast<double>(height);
      canvas_.fill(at(bar.x), top + i, at(bar.x + bar.width) - at(bar.x), 1,
                   style.color(style.value_at(place)));
    }
  }
  void lines(const std::vector<LineMark>& lines) override {
    const std::size_t thick = std::max<std::size_t>(at(1), 1);
    for (const LineMark& line : lines) {
      const std::size_t x = at(line.x), y = at(line.y);
      canvas_.fill(x, y, line.vertical ? thick : at(line.x + line.length) - x,
                   line.vertical ? at(line.y + line.length) - y : thick, faint_ink);
    }
  }
  void text(const TextMark& text) override {
    canvas_.text(text.x * zoom_, text.y * zoom_, text.text, text.size * zoom_, text.color,
                 text.anchor, text.vertical);
  }
  const Canvas& canvas() const { return canvas_; }

private:
  std::size_t at(std::size_t pixels) const {
    return static_cast<std::size_t>(std::lround(static_cast<double>(pixels) * zoom_));
  }
  double zoom_;
  Canvas canvas_;
};

/// Throws Error where cells become smaller than a pixel, or the picture too large.
void check_zoom(const MapLayout& layout, double zoom) {
  for (const PanelMark& mark : layout.panels)
    if (static_cast<double>(std::min(mark.cell_width, mark.cell_height)) * zoom < 1)
      fail("<zoom> {}: cells of {} × {} pixels would be less than one; give fewer <cells>, or "
           "<width>",
           zoom, mark.cell_width, mark.cell_height);
  const double pixels = static_cast<double>(layout.width) * static_cast<double>(layout.height);
  if (pixels * zoom * zoom > most_zoomed_pixels)
    fail("<zoom> {}: a picture of {} × {} pixels would have {:.0f} million; at most {:.0f} "
         "expected",
         zoom, layout.width, layout.height, pixels * zoom * zoom / 1e6, most_zoomed_pixels / 1e6);
}

} // namespace

std::string map_png(const MapPicture& picture) {
  const MapLayout layout = layout_of(picture);
  check_zoom(layout, picture.figure.zoom);
  Zoomed canvas(layout, picture.figure.zoom);
  paint(picture, layout, canvas);
  const Canvas& drawn = canvas.canvas();
  return png_bytes(drawn.pixels(), drawn.width(), drawn.height(), 3);
}

} // namespace mha::render
