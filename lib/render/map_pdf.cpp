// A map as PDF, by a writer of our own for rectangles, lines and text: a library that draws PDF
// (cairo) would be loaded at every start of the program, with pixman and fontconfig.

#include <mha/render/font.hpp>
#include <mha/render/font_subset.hpp>
#include <mha/render/painter.hpp>
#include <mha/render/pdf.hpp>

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iterator>
#include <map>

namespace mha::render {

namespace {

constexpr double points_a_pixel = 0.75;

std::string fill_color(Rgb color) {
  return fmt::format("{} {} {} rg\n", pdf_number(color.red / 255.0),
                     pdf_number(color.green / 255.0), pdf_number(color.blue / 255.0));
}

/// The letters of a joined form; any other character is itself.
std::string plain_letters(char32_t code) {
  std::array<utf8proc_uint8_t, 5> bytes{};
  utf8proc_encode_char(static_cast<utf8proc_int32_t>(code), bytes.data());
  const std::string text(reinterpret_cast<const char*>(bytes.data()));
  if (code < 0xfb1d || code > 0xfeff) return text; // Hebrew's and Arabic's forms
  utf8proc_uint8_t* plain = utf8proc_NFKC(bytes.data());
  if (plain == nullptr) return text;
  std::string letters(reinterpret_cast<const char*>(plain));
  std::free(plain);
  return letters;
}

/// The glyphs that a page uses, numbered from 1 on as its own font has them.
class UsedGlyphs {
public:
  std::uint16_t number(const GlyphMark& mark) {
    const auto [place, is_new] =
        numbers_.emplace(mark.glyph, static_cast<std::uint16_t>(glyphs_.size() + 1));
    if (is_new) glyphs_.push_back(mark.glyph), codes_.push_back(mark.code);
    return place->second;
  }
  std::size_t add_font(PdfFile& file) const;

private:
  std::string to_unicode() const;
  std::map<std::uint16_t, std::uint16_t> numbers_;
  std::vector<std::uint16_t> glyphs_;
  std::vector<char32_t> codes_;
};

/// The map from glyphs to characters, so that text can be searched for and copied.
std::string UsedGlyphs::to_unicode() const {
  std::string out = "/CIDInit /ProcSet findresource begin\n12 dict begin\nbegincmap\n"
                    "/CMapName /mha def\n/CMapType 2 def\n"
                    "1 begincodespacerange\n<0000> <FFFF>\nendcodespacerange\n";
  constexpr std::size_t most = 100; // of a list
  for (std::size_t first = 0; first < codes_.size(); first += most) {
    const std::size_t end = std::min(first + most, codes_.size());
    out += fmt::format("{} beginbfchar\n", end - first);
    for (std::size_t i = first; i < end; ++i)
      out += fmt::format("<{:04X}> <{}>\n", i + 1, utf16_of(plain_letters(codes_[i])));
    out += "endbfchar\n";
  }
  return out + "endcmap\nCMapName currentdict /CMap defineresource pop\nend\nend\n";
}

std::size_t UsedGlyphs::add_font(PdfFile& file) const {
  const FontSubset subset = subset_of(Font::instance().file(), glyphs_);
  const double share = 1000.0 / subset.facts.units_per_em;
  const auto scaled = [&](int units) { return pdf_number(units * share); };
  const std::size_t program =
      file.add_stream(fmt::format("/Length1 {}", subset.file.size()), subset.file);
  const FontFacts& facts = subset.facts;
  const std::size_t descriptor = file.add(fmt::format(
      "<< /Type /FontDescriptor /FontName /MHAMAP+DejaVuSans /Flags 4 /FontBBox [{} {} {} {}] "
      "/ItalicAngle 0 /Ascent {} /Descent {} /CapHeight {} /StemV 80 /FontFile2 {} 0 R >>",
      scaled(facts.left), scaled(facts.bottom), scaled(facts.right), scaled(facts.top),
      scaled(facts.ascent), scaled(facts.descent), 729, program));
  std::string widths;
  for (int advance : subset.advances) widths += scaled(advance) + " ";
  const std::size_t descendant = file.add(fmt::format(
      "<< /Type /Font /Subtype /CIDFontType2 /BaseFont /MHAMAP+DejaVuSans /CIDSystemInfo << "
      "/Registry (Adobe) /Ordering (Identity) /Supplement 0 >> /FontDescriptor {} 0 R "
      "/CIDToGIDMap /Identity /W [0 [{}]] >>",
      descriptor, widths));
  const std::size_t unicode = file.add_stream("", to_unicode());
  return file.add(fmt::format("<< /Type /Font /Subtype /Type0 /BaseFont /MHAMAP+DejaVuSans "
                              "/Encoding /Identity-H /DescendantFonts [{} 0 R] /ToUnicode {} 0 R "
                              ">>",
                              descendant, unicode));
}

class Pdf : public Painter {
public:
  Pdf(const MapPicture& picture, const MapLayout& layout)
      : p_(picture),
        layout_(layout),
        height_(static_cast<double>(layout.height) * points_a_pixel * picture.figure.zoom),
        vectors_(picture.cells() <= most_vector_cells) {
    const std::string zoom = pdf_number(points_a_pixel * p_.figure.zoom);
    add("{} 0 0 -{} 0 {} cm", zoom, zoom, pdf_number(height_));
  }
  std::string end();

  void cells(const PanelMark& mark, const MapPanel& panel, const MapStyle& style) override;
  void bar(const BoxMark& bar, const MapStyle& style) override;
  void fill(const BoxMark& mark, Rgb color) override {
    add("{}{} f", fill_color(color), box(mark));
  }
  void hatch(const BoxMark& mark) override { add("/Pattern cs /masked scn {} f", box(mark)); }
  void lines(const std::vector<LineMark>& lines) override;
  void text(const TextMark& mark) override;

private:
  template <class... Args> void add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(page_), format, std::forward<Args>(args)...);
    page_ += '\n';
  }
  static std::string box(double x, double y, double width, double height) {
    return fmt::format("{} {} {} {} re", pdf_number(x), pdf_number(y), pdf_number(width),
                       pdf_number(height));
  }
  static std::string box(const BoxMark& mark) {
    return box(static_cast<double>(mark.x), static_cast<double>(mark.y),
               static_cast<double>(mark.width), static_cast<double>(mark.height));
  }
  void rectangles(const MapPanel& panel, const MapStyle& style, const PanelMark& mark);
  void embedded(const MapPanel& panel, const MapStyle& style, const BoxMark& frame);
  std::size_t pattern();

  const MapPicture& p_;
  const MapLayout& layout_;
  double height_; ///< of the page, in points
  bool vectors_;
  PdfFile file_;
  UsedGlyphs glyphs_;
  std::string page_, images_;
  std::size_t images_count_ = 0;
};

void Pdf::cells(const PanelMark& mark, const MapPanel& panel, const MapStyle& style) {
  const BoxMark frame = box_of(mark, panel);
  if (layout_.masked) hatch(frame);
  add("q {} W n", box(frame));
  if (vectors_)
    rectangles(panel, style, mark);
  else
    embedded(panel, style, frame);
  add("Q");
}

/// Viewers smooth edges, so that cells side by side would show a line between them: each reaches a
/// little below the next ones, which are drawn over it, where these are not masked.
void Pdf::rectangles(const MapPanel& panel, const MapStyle& style, const PanelMark& mark) {
  const PooledMap& map = panel.map;
  std::optional<Rgb> color;
  for_each_run(panel, style, [&](const SameColor& run) {
    if (run.color != color) page_ += fill_color(run.color);
    color = run.color;
    constexpr double below = 0.4;
    const bool right = run.end < map.cols && !map.is_masked(run.row, run.end);
    bool under = run.row + 1 < map.rows;
    for (std::size_t col = run.col; under && col < run.end; ++col)
      under = !map.is_masked(run.row + 1, col);
    const auto width = static_cast<double>(mark.cell_width),
               height = static_cast<double>(mark.cell_height);
    add("{} f", box(static_cast<double>(mark.x) + static_cast<double>(run.col) * width,
                    static_cast<double>(mark.y) + static_cast<double>(run.row) * height,
                    static_cast<double>(run.end - run.col) * width + (right ? below : 0),
                    height + (under ? below : 0)));
  });
}

/// Some pixels a cell; a second picture of bits leaves out what is masked.
void Pdf::embedded(const MapPanel& panel, const MapStyle& style, const BoxMark& frame) {
  const PooledMap& map = panel.map;
  const std::size_t side = pixels_a_cell(p_);
  std::string pixels, bits;
  bool masked = false;
  for (std::size_t row = 0; row < map.rows; ++row) {
    std::string line, hidden;
    Rgb color;
    bool hides = false;
    for (std::size_t at = 0; at < map.cols * side; ++at) {
      if (const std::size_t col = at / side; at % side == 0) {
        hides = map.is_masked(row, col);
        color = hides ? masked_ground : cell_color(panel, style, row, col);
      }
      masked = masked || hides;
      line += static_cast<char>(color.red);
      line += static_cast<char>(color.green);
      line += static_cast<char>(color.blue);
      if (at % 8 == 0) hidden += '\0';
      if (hides) hidden.back() = static_cast<char>(hidden.back() | 0x80 >> at % 8);
    }
    for (std::size_t i = 0; i < side; ++i) pixels += line, bits += hidden;
  }
  const std::string size = fmt::format("/Width {} /Height {}", map.cols * side, map.rows * side);
  std::string entries = "/Type /XObject /Subtype /Image " + size +
                        " /ColorSpace /DeviceRGB /BitsPerComponent 8 /Interpolate false";
  if (masked)
    entries +=
        fmt::format(" /Mask {} 0 R", file_.add_stream("/Type /XObject /Subtype /Image " + size +
                                                          " /ImageMask true /BitsPerComponent 1",
                                                      bits));
  images_ += fmt::format("/i{} {} 0 R ", images_count_, file_.add_stream(entries, pixels));
  // An image is a square of 1 × 1 with y upwards; the page's y runs downwards.
  add("{} 0 0 -{} {} {} cm /i{} Do", frame.width, frame.height, frame.x, frame.y + frame.height,
      images_count_++);
}

void Pdf::bar(const BoxMark& bar, const MapStyle& style) {
  constexpr std::size_t steps = 128;
  const double height = static_cast<double>(bar.height) / steps;
  add("q {} W n", box(bar));
  for (std::size_t i = 0; i < steps; ++i) {
    page_ += fill_color(style.color(style.value_at(1 - (static_cast<double>(i) + 0.5) / steps)));
    add("{} f", box(static_cast<double>(bar.x),
                    static_cast<double>(bar.y) + static_cast<double>(i) * height,
                    static_cast<double>(bar.width), height + 0.4));
  }
  add("Q");
}

void Pdf::lines(const std::vector<LineMark>& lines) {
  page_ += fill_color(faint_ink);
  for (const LineMark& line : lines)
    add("{} f", box(static_cast<double>(line.x), static_cast<double>(line.y),
                    line.vertical ? 1 : static_cast<double>(line.length),
                    line.vertical ? static_cast<double>(line.length) : 1));
}

void Pdf::text(const TextMark& mark) {
  const Font& font = Font::instance();
  const double length = font.width(mark.text, mark.size);
  const double before = mark.anchor == Anchor::start    ? 0
                        : mark.anchor == Anchor::middle ? length / 2
                                                        : length;
  // Flipped, so that glyphs are upright on a page whose y runs downwards; or turned to run upwards.
  const double x = mark.vertical ? mark.x : mark.x - before,
               y = mark.vertical ? mark.y + before : mark.y;
  add("q {} {} {} cm", mark.vertical ? "0 -1 -1 0" : "1 0 0 -1", pdf_number(x), pdf_number(y));
  const std::vector<GlyphMark> glyphs = font.glyphs(mark.text, mark.size);
  // Boxes alone could not be copied as text. Viewers reorder text that runs from right to left.
  const bool boxed = std::any_of(glyphs.begin(), glyphs.end(),
                                 [](const GlyphMark& one) { return one.glyph == 0; });
  if (boxed) add("/Span << /ActualText <FEFF{}> >> BDC", utf16_of(mark.text));
  page_ += fill_color(mark.color);
  std::string run;
  double start = 0;
  const auto write = [&] {
    if (!run.empty())
      add("BT /f {} Tf {} 0 Td <{}> Tj ET", pdf_number(mark.size), pdf_number(start), run);
    run.clear();
  };
  for (const GlyphMark& glyph : glyphs) {
    if (glyph.glyph == 0) {
      write();
      add("0.4 G 0.7 w {} S", box(glyph.x, 0, glyph.width, glyph.height));
      continue;
    }
    if (run.empty()) start = glyph.x;
    run += fmt::format("{:04X}", glyphs_.number(glyph));
  }
  write();
  if (boxed) add("EMC");
  add("Q");
}

std::size_t Pdf::pattern() {
  const std::string cell =
      fill_color(masked_ground) + "0 0 6 6 re f\n" +
      fmt::format("{} {} {} RG 1 w -1 1 m 1 -1 l 0 6 m 6 0 l 5 7 m 7 5 l S\n",
                  pdf_number(masked_line.red / 255.0), pdf_number(masked_line.green / 255.0),
                  pdf_number(masked_line.blue / 255.0));
  const std::string zoom = pdf_number(points_a_pixel * p_.figure.zoom);
  return file_.add_stream(
      fmt::format("/Type /Pattern /PatternType 1 /PaintType 1 /TilingType 1 /BBox [0 0 6 6] /XStep "
                  "6 /YStep 6 /Resources << >> /Matrix [{} 0 0 -{} 0 {}]", // as the page's
                  zoom, zoom, pdf_number(height_)),
      cell);
}

std::string Pdf::end() {
  const double width = static_cast<double>(layout_.width) * points_a_pixel * p_.figure.zoom;
  const std::size_t content = file_.add_stream("", page_), font = glyphs_.add_font(file_),
                    pages = file_.reserve();
  std::string resources = fmt::format("/Font << /f {} 0 R >>", font);
  if (layout_.masked) resources += fmt::format(" /Pattern << /masked {} 0 R >>", pattern());
  if (!images_.empty()) resources += fmt::format(" /XObject << {}>>", images_);
  const std::size_t page = file_.add(fmt::format(
      "<< /Type /Page /Parent {} 0 R /MediaBox [0 0 {} {}] /Resources << {} >> /Contents {} 0 R >>",
      pages, pdf_number(width), pdf_number(height_), resources, content));
  file_.set(pages, fmt::format("<< /Type /Pages /Kids [{} 0 R] /Count 1 >>", page));
  const std::size_t root = file_.add(fmt::format("<< /Type /Catalog /Pages {} 0 R >>", pages));
  const std::size_t info =
      file_.add(p_.title.empty() ? "<< /Producer (mha-inspect) >>"
                                 : fmt::format("<< /Producer (mha-inspect) /Title <FEFF{}> >>",
                                               utf16_of(visible(p_.title))));
  return file_.bytes(root, info);
}

} // namespace

std::string map_pdf(const MapPicture& picture) {
  const MapLayout layout = layout_of(picture);
  Pdf pdf(picture, layout);
  paint(picture, layout, pdf);
  return pdf.end();
}

} // namespace mha::render
