#pragma once
// A part of a TrueType font, for files that carry the letters they use.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mha::render {

/// The numbers about a font that a PDF contains, in units of the em square.
struct FontFacts {
  int units_per_em = 1000, ascent = 0, descent = 0;
  int left = 0, bottom = 0, right = 0, top = 0; ///< around all glyphs
};

/// A font of some glyphs of another one.
struct FontSubset {
  std::string file; ///< TrueType: glyph 0 is the font's own box, then those asked for in order,
                    ///< then the parts that composed ones are made of
  std::vector<int> advances; ///< of each glyph of it, in units of the em square
  FontFacts facts;
};

/// `glyphs` of a TrueType font with `glyf` outlines, in their order (OpenType 1.9, "glyf", "loca",
/// "hmtx"). Throws Error for a file that is not a font, or a glyph that it does not have.
FontSubset subset_of(std::string_view font, std::span<const std::uint16_t> glyphs);

} // namespace mha::render
