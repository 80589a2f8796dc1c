#pragma once
// Readable labels of tokens, without the marks that tokenizers put into them.

#include <string>
#include <string_view>

namespace mha::render {

/// A label as its reader wants to see it, one line of UTF-8 without control characters. Maps,
/// pictures, pages and tables all show this; JSON, CSV and TSV keep the raw label.
///
/// - What tokenizers put for the space before a word (`Ġ` of byte-level BPE, `▁` of SentencePiece)
///   goes, as do `##` before and `</w>` after a piece.
/// - Characters that encode bytes become the text they spell: `ä½ł` is 你, `<0x0A>` a line break.
/// - Other blanks at the ends, and tokens of blanks alone, are seen: ␣ for spaces, ⏎ for line
///   breaks, ⇥ for tabs. What has no width of its own is its code, \u200b.
std::string readable(std::string_view label);

} // namespace mha::render
