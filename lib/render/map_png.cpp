#include <mha/render/map_layout.hpp>
#include <mha/render/png.hpp>

#include <cmath>

namespace mha::render {

namespace {

void draw_cells(Canvas& canvas, const MapPanel& panel, const MapStyle& style,
                const PanelMark& mark) {
  for (std::size_t row = 0; row < panel.map.rows; ++row)
    for (std::size_t col = 0; col < panel.map.cols; ++col) {
      const std::size_t x = mark.x + col * mark.cell_width, y = mark.y + row * mark.cell_height;
      const double value = panel.map.value(row, col);
      if (panel.map.is_masked(row, col))
        canvas.hatch(x, y, mark.cell_width, mark.cell_height);
      else
        canvas.fill(x, y, mark.cell_width, mark.cell_height,
                    std::isnan(value) ? nan_color : style.color(value));
    }
}

void draw_bar(Canvas& canvas, const BoxMark& bar, const MapStyle& style) {
  for (std::size_t i = 0; i < bar.height; ++i) {
    const double place = 1 - (static_cast<double>(i) + 0.5) / static_cast<double>(bar.height);
    canvas.fill(bar.x, bar.y + i, bar.width, 1, style.color(style.value_at(place)));
  }
}

} // namespace

std::string map_png(const MapPicture& picture) {
  const MapLayout layout = lay_out(picture);
  Canvas canvas(layout.width, layout.height);
  for (const PanelMark& mark : layout.panels)
    draw_cells(canvas, picture.panels[mark.panel], picture.style(mark.panel), mark);
  draw_bar(canvas, layout.bar, picture.styles[0]);
  if (const auto& box = layout.masked) canvas.hatch(box->x, box->y, box->width, box->height);
  if (const auto& box = layout.nan) canvas.fill(box->x, box->y, box->width, box->height, nan_color);
  for (const LineMark& line : layout.lines)
    canvas.fill(line.x, line.y, line.vertical ? 1 : line.length, line.vertical ? line.length : 1,
                faint_ink);
  for (const TextMark& text : layout.texts)
    canvas.text(text.x, text.y, text.text, text.size, text.color, text.anchor, text.vertical);
  return png_bytes(canvas.pixels(), canvas.width(), canvas.height(), 3);
}

} // namespace mha::render
