#include <mha/render/font.hpp>

#include <mha/system/error.hpp>

#include <utf8proc.h>

#include <algorithm>
#include <cmath>

#define STB_TRUETYPE_IMPLEMENTATION
#define STBTT_STATIC
#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#endif
#include <stb/stb_truetype.h>
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

extern "C" {
extern const unsigned char mha_font_begin[], mha_font_end[];
}

namespace mha::render {

namespace {

const stbtt_fontinfo& font() {
  static const stbtt_fontinfo info = [] {
    stbtt_fontinfo loaded{};
    if (mha_font_end - mha_font_begin < 1024 ||
        !stbtt_InitFont(&loaded, mha_font_begin, stbtt_GetFontOffsetForIndex(mha_font_begin, 0)))
      fail("the font in this program is damaged; build it again");
    return loaded;
  }();
  return info;
}

float font_scale(double size) {
  return stbtt_ScaleForMappingEmToPixels(&font(), static_cast<float>(size));
}

/// The glyphs of a text from left to right: 0 is a box, for a character that the font lacks with
/// all that belongs to it (marks, a joined family of emoji, two letters that are a flag).
struct Glyph {
  int index = 0;
  char32_t code = 0;
};
std::vector<Glyph> glyphs_of(std::string_view text) {
  std::vector<Glyph> glyphs;
  utf8proc_int32_t state = 0;
  std::uint32_t before = 0;
  bool boxed = false;
  for (std::uint32_t code : in_drawing_order(text)) {
    const auto point = static_cast<utf8proc_int32_t>(code);
    const bool joined = before != 0 && !utf8proc_grapheme_break_stateful(
                                           static_cast<utf8proc_int32_t>(before), point, &state);
    before = code;
    boxed = joined && boxed;
    if (boxed) continue;
    const int glyph = stbtt_FindGlyphIndex(&font(), point);
    const bool drawn = utf8proc_charwidth(point) > 0;
    // A mark that the font lacks is left out: its letter is there. So is what has no shape.
    if (glyph == 0 && (joined || !drawn)) continue;
    boxed = glyph == 0;
    glyphs.push_back({glyph, code});
  }
  return glyphs;
}

/// A box and the margin on each side of it, in em squares. It is as wide as a Chinese character, so
/// that labels have the room that the fonts of an SVG's reader will take.
constexpr double box_width = 1, box_margin = 0.1, box_height = 0.73;

double advance_of(int glyph, double size) {
  int advance = 0;
  stbtt_GetGlyphHMetrics(&font(), glyph, &advance, nullptr);
  return advance * static_cast<double>(font_scale(size));
}

void draw_glyph(TextPixels& to, int glyph, double x, double baseline, double size) {
  const float scale = font_scale(size);
  const double whole = std::floor(x);
  const auto shift = static_cast<float>(x - whole);
  int left = 0, top = 0, right = 0, bottom = 0;
  stbtt_GetGlyphBitmapBoxSubpixel(&font(), glyph, scale, scale, shift, 0, &left, &top, &right,
                                  &bottom);
  if (right <= left || bottom <= top) return;
  const int width = right - left, height = bottom - top;
  std::vector<std::uint8_t> pixels(static_cast<std::size_t>(width) *
                                   static_cast<std::size_t>(height));
  stbtt_MakeGlyphBitmapSubpixel(&font(), pixels.data(), width, height, width, scale, scale, shift,
                                0, glyph);
  for (int row = 0; row < height; ++row)
    for (int col = 0; col < width; ++col) {
      const int at_x = static_cast<int>(whole) + left + col,
                at_y = static_cast<int>(baseline) + top + row;
      if (at_x < 0 || at_y < 0 || at_x >= static_cast<int>(to.width) ||
          at_y >= static_cast<int>(to.height))
        continue;
      std::uint8_t& pixel =
          to.coverage[static_cast<std::size_t>(at_y) * to.width + static_cast<std::size_t>(at_x)];
      pixel =
          std::max(pixel, pixels[static_cast<std::size_t>(row) * static_cast<std::size_t>(width) +
                                 static_cast<std::size_t>(col)]);
    }
}

void draw_box(TextPixels& to, double from, double until, double top, double bottom) {
  const auto limit = [](double place, std::size_t count) {
    return static_cast<std::size_t>(std::clamp(place, 0.0, static_cast<double>(count) - 1));
  };
  const std::size_t left = limit(from, to.width), right = limit(until, to.width),
                    first = limit(top, to.height), last = limit(bottom, to.height);
  for (std::size_t x = left; x <= right; ++x)
    to.coverage[first * to.width + x] = to.coverage[last * to.width + x] = 160;
  for (std::size_t y = first; y <= last; ++y)
    to.coverage[y * to.width + left] = to.coverage[y * to.width + right] = 160;
}

/// Calls glyph(index, x) and box(from, until) from left to right; returns the width.
template <class DrawGlyph, class DrawBox>
double walk_glyphs(std::string_view text, double size, const DrawGlyph& glyph, const DrawBox& box) {
  double x = 0;
  for (const Glyph& one : glyphs_of(text)) {
    if (one.index == 0) {
      box(x + box_margin * size, x + (box_width - box_margin) * size);
      x += box_width * size;
      continue;
    }
    glyph(one, x);
    x += advance_of(one.index, size);
  }
  return x;
}

} // namespace

Font::Font() {
  font();
}

const Font& Font::instance() {
  static const Font only;
  return only;
}

double Font::width(std::string_view text, double size) const {
  return walk_glyphs(
      text, size, [](const Glyph&, double) {}, [](double, double) {});
}

bool Font::draws(std::string_view text) const {
  return std::ranges::none_of(glyphs_of(text), [](const Glyph& one) { return one.index == 0; });
}

double Font::ascent(double size) const {
  int ascent = 0, descent = 0, gap = 0;
  stbtt_GetFontVMetrics(&font(), &ascent, &descent, &gap);
  return std::ceil(ascent * static_cast<double>(font_scale(size)));
}

double Font::descent(double size) const {
  int ascent = 0, descent = 0, gap = 0;
  stbtt_GetFontVMetrics(&font(), &ascent, &descent, &gap);
  return std::ceil(-descent * static_cast<double>(font_scale(size)));
}

std::vector<GlyphMark> Font::glyphs(std::string_view text, double size) const {
  std::vector<GlyphMark> marks;
  walk_glyphs(
      text, size,
      [&](const Glyph& glyph, double x) {
        marks.push_back({static_cast<std::uint16_t>(glyph.index), glyph.code, x, 0, 0});
      },
      [&](double from, double until) {
        marks.push_back({0, 0, from, until - from, box_height * size});
      });
  return marks;
}

std::string_view Font::file() const {
  return {reinterpret_cast<const char*>(mha_font_begin),
          static_cast<std::size_t>(mha_font_end - mha_font_begin)};
}

TextPixels Font::draw(std::string_view text, double size) const {
  TextPixels pixels;
  const double baseline = ascent(size);
  pixels.width = static_cast<std::size_t>(std::ceil(width(text, size))) + 2;
  pixels.height = static_cast<std::size_t>(baseline + descent(size));
  pixels.coverage.assign(pixels.width * pixels.height, 0);
  walk_glyphs(
      text, size,
      [&](const Glyph& glyph, double x) { draw_glyph(pixels, glyph.index, x, baseline, size); },
      [&](double from, double until) {
        draw_box(pixels, from, until, baseline - box_height * size, baseline);
      });
  return pixels;
}

} // namespace mha::render
