#include <mha/render/encodings.hpp>
#include <mha/render/painter.hpp>
#include <mha/system/characters.hpp>

#include <fmt/format.h>

#include <cmath>
#include <iterator>

namespace mha::render {

namespace {

std::string for_xml(std::string_view text) {
  return with_replaced(text, {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}});
}

/// "12.5", "12".
std::string pixels(double value) {
  return fmt::format("{:g}", std::round(value * 100) / 100);
}

class Svg : public Painter {
public:
  Svg(const MapPicture& picture, const MapLayout& layout)
      : p_(picture), layout_(layout), vectors_(picture.cells() <= most_vector_cells) {
    const double zoom = p_.figure.zoom;
    add(R"svg(<svg xmlns="http://www.w3.org/2000/svg" width="{2}" height="{3}" viewBox="0 0 {0} {1}" )svg"
        R"svg(font-family="DejaVu Sans, Verdana, Helvetica, Arial, sans-serif">)svg",
        layout_.width, layout_.height, pixels(static_cast<double>(layout_.width) * zoom),
        pixels(static_cast<double>(layout_.height) * zoom));
    if (!p_.title.empty()) add("<title>{}</title>", for_xml(visible(p_.title)));
    definitions();
    add(R"svg(<rect width="{}" height="{}" fill="#ffffff"/>)svg", layout_.width, layout_.height);
  }
  std::string end() const { return out_ + "</svg>\n"; }

  void cells(const PanelMark& mark, const MapPanel& panel, const MapStyle& style) override;
  void bar(const BoxMark& box, const MapStyle&) override { fill(box, "url(#colors)"); }
  void fill(const BoxMark& box, Rgb color) override { fill(box, hex(color)); }
  void hatch(const BoxMark& box) override { fill(box, "url(#masked)"); }
  void lines(const std::vector<LineMark>& lines) override;
  void text(const TextMark& mark) override;

private:
  template <class... Args> void add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
    out_ += '\n';
  }
  void fill(const BoxMark& box, std::string_view paint) {
    add(R"svg(<rect x="{}" y="{}" width="{}" height="{}" fill="{}"/>)svg", box.x, box.y, box.width,
        box.height, paint);
  }
  void definitions();
  void rectangles(const MapPanel& panel, const MapStyle& style);
  void embedded(const MapPanel& panel, const MapStyle& style);

  const MapPicture& p_;
  const MapLayout& layout_;
  bool vectors_; ///< cells are rectangles: by all of them, so that the file stays small
  std::string out_;
};

void Svg::definitions() {
  add("<defs>");
  if (layout_.masked)
    add(R"svg(<pattern id="masked" width="6" height="6" patternUnits="userSpaceOnUse">)svg"
        R"svg(<rect width="6" height="6" fill="{}"/>)svg"
        R"svg(<path d="M-1 1l2-2M0 6l6-6M5 7l2-2" stroke="{}"/></pattern>)svg",
        hex(masked_ground), hex(masked_line));
  const MapStyle& style = p_.styles[0];
  add(R"svg(<linearGradient id="colors" x1="0" y1="1" x2="0" y2="0">)svg");
  constexpr int stops = 32;
  for (int i = 0; i <= stops; ++i)
    add(R"svg(<stop offset="{}" stop-color="{}"/>)svg", static_cast<double>(i) / stops,
        hex(style.color(style.value_at(static_cast<double>(i) / stops))));
  add("</linearGradient>\n</defs>");
}

/// One rectangle a run of cells of one colour; masked ones show the pattern below.
void Svg::rectangles(const MapPanel& panel, const MapStyle& style) {
  for_each_run(panel, style, [&](const SameColor& run) {
    add(R"svg(<rect x="{}" y="{}" width="{}" height="1" fill="{}"/>)svg", run.col, run.row,
        run.end - run.col, hex(run.color));
  });
}

void Svg::embedded(const MapPanel& panel, const MapStyle& style) {
  const std::size_t side = pixels_a_cell(p_), width = panel.map.cols * side;
  std::vector<std::uint8_t> pixels, line;
  pixels.reserve(width * panel.map.rows * side * 4);
  for (std::size_t row = 0; row < panel.map.rows; ++row) {
    line.clear();
    for (std::size_t col = 0; col < panel.map.cols; ++col) {
      const bool masked = panel.map.is_masked(row, col);
      const Rgb color = masked ? Rgb{} : cell_color(panel, style, row, col);
      for (std::size_t i = 0; i < side; ++i)
        line.insert(line.end(), {color.red, color.green, color.blue,
                                 static_cast<std::uint8_t>(masked ? 0 : 255)});
    }
    for (std::size_t i = 0; i < side; ++i) pixels.insert(pixels.end(), line.begin(), line.end());
  }
  add(R"svg(<image width="{}" height="{}" preserveAspectRatio="none" image-rendering="optimizeSpeed" )svg"
      R"svg(style="image-rendering:pixelated" href="data:image/png;base64,{}"/>)svg",
      panel.map.cols, panel.map.rows, base64(png_bytes(pixels, width, panel.map.rows * side, 4)));
}

void Svg::cells(const PanelMark& mark, const MapPanel& panel, const MapStyle& style) {
  if (layout_.masked) hatch(box_of(mark, panel));
  add(R"svg(<g class="cells" transform="translate({} {}) scale({} {})" shape-rendering="crispEdges">)svg",
      mark.x, mark.y, mark.cell_width, mark.cell_height);
  if (vectors_)
    rectangles(panel, style);
  else
    embedded(panel, style);
  add("</g>");
}

/// Frames and ticks: lines through the middle of their pixels.
void Svg::lines(const std::vector<LineMark>& lines) {
  std::string path;
  for (const LineMark& line : lines)
    path += fmt::format("M{} {}{}{}", static_cast<double>(line.x) + (line.vertical ? 0.5 : 0),
                        static_cast<double>(line.y) + (line.vertical ? 0 : 0.5),
                        line.vertical ? 'v' : 'h', line.length);
  add(R"svg(<path d="{}" stroke="{}" fill="none"/>)svg", path, hex(faint_ink));
}

void Svg::text(const TextMark& mark) {
  std::string more;
  if (mark.anchor == Anchor::middle) more += R"svg( text-anchor="middle")svg";
  if (mark.anchor == Anchor::end) more += R"svg( text-anchor="end")svg";
  const std::string x = pixels(mark.x), y = pixels(mark.y);
  if (mark.vertical) more += fmt::format(R"svg( transform="rotate(-90 {} {})")svg", x, y);
  add(R"svg(<text x="{}" y="{}" font-size="{}" fill="{}"{} xml:space="preserve">{}</text>)svg", x,
      y, pixels(mark.size), hex(mark.color), more, for_xml(mark.text));
}

} // namespace

std::string map_svg(const MapPicture& picture) {
  const MapLayout layout = layout_of(picture);
  Svg svg(picture, layout);
  paint(picture, layout, svg);
  return svg.end();
}

} // namespace mha::render
