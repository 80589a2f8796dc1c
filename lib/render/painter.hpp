#pragma once
// Painters of pictures, one for each format of files.

#include <mha/render/map_layout.hpp>

namespace mha::render {

/// Draws marks of a layout, later ones over earlier ones.
class Painter {
public:
  virtual ~Painter() = default;
  /// A panel's cells, masked ones hatched.
  virtual void cells(const PanelMark& mark, const MapPanel& panel, const MapStyle& style) = 0;
  /// The colours of a style, the highest number on top.
  virtual void bar(const BoxMark& box, const MapStyle& style) = 0;
  virtual void fill(const BoxMark& box, Rgb color) = 0;
  virtual void hatch(const BoxMark& box) = 0;
  /// Frames and ticks.
  virtual void lines(const std::vector<LineMark>& lines) = 0;
  virtual void text(const TextMark& mark) = 0;
};

/// Draws all of a picture.
void paint(const MapPicture& picture, const MapLayout& layout, Painter& painter);

} // namespace mha::render
