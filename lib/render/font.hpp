#pragma once
// Text as pixels: DejaVu Sans, which is part of the program.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mha::render {

/// Coverage of a text's pixels, 0 … 255. The baseline is at row `ascent`.
struct TextPixels {
  std::size_t width = 0, height = 0;
  std::vector<std::uint8_t> coverage;
};

/// A glyph of a text that is drawn, or a box (glyph 0) of so many pixels on the baseline.
struct GlyphMark {
  std::uint16_t glyph = 0;
  char32_t code = 0;            ///< its character, of a text from right to left in its joined form
  double x = 0;                 ///< pixels from the start of the text
  double width = 0, height = 0; ///< of a box
};

/// The font at sizes in pixels of the em square. Characters that it lacks are boxes, all of one
/// width; Hebrew and Arabic run from right to left.
class Font {
public:
  static const Font& instance();
  /// Pixels from the start of the text to the end.
  double width(std::string_view text, double size) const;
  /// Whether it has all characters of a text.
  bool draws(std::string_view text) const;
  /// Above the baseline, and below it.
  double ascent(double size) const;
  double descent(double size) const;
  /// One line of UTF-8 text, without control characters (see visible()).
  TextPixels draw(std::string_view text, double size) const;
  /// What draw() draws, from left to right.
  std::vector<GlyphMark> glyphs(std::string_view text, double size) const;
  /// The font's own file: TrueType.
  std::string_view file() const;

private:
  Font();
};

/// The characters of one line of UTF-8, composed (e + U+0301 is é), from left to right: Hebrew and
/// Arabic turned, brackets in them mirrored, Arabic letters in their joined forms. Marks follow
/// their letters. Invalid UTF-8 is U+FFFD.
std::vector<std::uint32_t> in_drawing_order(std::string_view text);

} // namespace mha::render
