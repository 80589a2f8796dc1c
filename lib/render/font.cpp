#include <mha/render/font.hpp>

#include <mha/system/error.hpp>

#include <fmt/core.h>
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

float scale_of(double size) {
  return stbtt_ScaleForMappingEmToPixels(&font(), static_cast<float>(size));
}

/// A piece of a text: a glyph, or the code of a character that the font lacks, in a box.
struct Glyphs {
  int glyph = 0;
  std::string code;
};

std::vector<Glyphs> glyph_runs(std::string_view text) {
  std::vector<Glyphs> pieces;
  while (!text.empty()) {
    utf8proc_int32_t code = 0;
    const utf8proc_ssize_t bytes =
        utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                         static_cast<utf8proc_ssize_t>(text.size()), &code);
    if (bytes <= 0) {
      text.remove_prefix(1);
      pieces.push_back({stbtt_FindGlyphIndex(&font(), 0xfffd), {}});
      continue;
    }
    const int glyph = stbtt_FindGlyphIndex(&font(), code);
    pieces.push_back({glyph, glyph == 0 ? fmt::format("U+{:04X}", code) : std::string()});
    text.remove_prefix(static_cast<std::size_t>(bytes));
  }
  return pieces;
}

constexpr double code_size = 0.75; ///< of U+4E2D in its box, of the text around it
constexpr double box_margin = 0.15;

double advance_of(int glyph, double size) {
  int advance = 0;
  stbtt_GetGlyphHMetrics(&font(), glyph, &advance, nullptr);
  return advance * static_cast<double>(scale_of(size));
}

void draw_glyph(TextPixels& to, int glyph, double x, double baseline, double size) {
  const float scale = scale_of(size);
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

/// Calls glyph(index, x, size) and box(from, until) from left to right; returns the width.
template <class DrawGlyph, class DrawBox>
double lay_out(std::string_view text, double size, const DrawGlyph& glyph, const DrawBox& box) {
  double x = 0;
  for (const Glyphs& piece : glyph_runs(text)) {
    if (piece.code.empty()) {
      glyph(piece.glyph, x, size);
      x += advance_of(piece.glyph, size);
      continue;
    }
    const double start = x + box_margin * size / 2;
    x = start + box_margin * size;
    for (char c : piece.code) {
      const int digit = stbtt_FindGlyphIndex(&font(), c);
      glyph(digit, x, size * code_size);
      x += advance_of(digit, size * code_size);
    }
    x += box_margin * size;
    box(start, x);
    x += box_margin * size / 2;
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
  return lay_out(
      text, size, [](int, double, double) {}, [](double, double) {});
}

double Font::ascent(double size) const {
  int ascent = 0, descent = 0, gap = 0;
  stbtt_GetFontVMetrics(&font(), &ascent, &descent, &gap);
  return std::ceil(ascent * static_cast<double>(scale_of(size)));
}

double Font::descent(double size) const {
  int ascent = 0, descent = 0, gap = 0;
  stbtt_GetFontVMetrics(&font(), &ascent, &descent, &gap);
  return std::ceil(-descent * static_cast<double>(scale_of(size)));
}

TextPixels Font::draw(std::string_view text, double size) const {
  TextPixels pixels;
  const double baseline = ascent(size);
  pixels.width = static_cast<std::size_t>(std::ceil(width(text, size))) + 2;
  pixels.height = static_cast<std::size_t>(baseline + descent(size));
  pixels.coverage.assign(pixels.width * pixels.height, 0);
  lay_out(
      text, size,
      [&](int glyph, double x, double at_size) { draw_glyph(pixels, glyph, x, baseline, at_size); },
      [&](double from, double until) {
        draw_box(pixels, from, until, baseline - 0.8 * size, baseline + 0.15 * size);
      });
  return pixels;
}

} // namespace mha::render
