#include <mha/render/painter.hpp>

namespace mha::render {

void paint(const MapPicture& picture, const MapLayout& layout, Painter& painter) {
  for (const PanelMark& mark : layout.panels)
    painter.cells(mark, picture.panels[mark.panel], picture.style(mark.panel));
  const MapStyle& style = picture.styles[0];
  painter.bar(layout.bar, style);
  for (const BoxMark& line : layout.above) painter.fill(line, style.color(style.high));
  for (const BoxMark& line : layout.below) painter.fill(line, style.color(style.low));
  if (layout.masked) painter.hatch(*layout.masked);
  if (layout.nan) painter.fill(*layout.nan, nan_color);
  painter.lines(layout.lines);
  for (const TextMark& mark : layout.texts) painter.text(mark);
}

} // namespace mha::render
