#pragma once
// Text for a reader's screen: style, widths of Unicode, padding and wrapping.

#include <mha/system/message.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace mha::render {

/// Takes rendered text, piece by piece.
using Sink = std::function<void(std::string_view)>;

/// The colours that a terminal shows, beyond bold and dim.
enum class Depth : std::uint8_t { none, palette /* 256 */, truecolor /* 24 bits */ };

/// The screen that text is rendered for.
struct TextStyle {
  bool color = false;      ///< escapes for bold and dim may be used
  std::size_t width = 100; ///< columns that a line should fit
  bool terminal = false;
  std::size_t height = 0;    ///< lines of the window; 0: no limit
  Depth depth = Depth::none; ///< of pictures
  bool window = false;       ///< the width is a terminal's, or was set: messages also fit it

  /// The text in bold, or dim; unchanged without colour.
  std::string bold(std::string_view text) const;
  std::string dim(std::string_view text) const;
};

/// A message in the words of the command line.
std::string typed(const Message& message);

/// Columns that UTF-8 text takes on a terminal (wide characters two, combining ones none).
std::size_t display_width(std::string_view text);
/// Filled with spaces up to a display width.
std::string pad_left(std::string_view text, std::size_t width);  ///< right-aligned
std::string pad_right(std::string_view text, std::size_t width); ///< left-aligned
/// The text, cut to a display width with "…" at its end if it is longer.
std::string shortened(std::string_view text, std::size_t width);
/// Control characters, and invalid UTF-8, as visible escapes ("\n", "\x1b"): a label may
/// hold anything.
std::string visible(std::string_view text);
/// Words wrapped into lines of at most `width` columns.
std::vector<std::string> wrapped(std::string_view text, std::size_t width);
/// The same, but words that are wider than a line are broken: after a "/", ".", ":", "," or
/// "|" of their second half, else after a "_", else anywhere.
std::vector<std::string> broken(std::string_view text, std::size_t width);
/// The text unchanged where it fits the width, else its words in lines.
std::string in_lines(std::string_view text, std::size_t width);
/// " · "-separated facts in lines of so many columns, of which `used` are taken. Lines
/// break before a "·".
std::string fitted_facts(std::string_view text, std::size_t used, std::size_t width);
/// "a, b and c", or with another `last` before the last word.
std::string joined(const std::vector<std::string>& words, std::string_view last = " and ");
/// "title: a, b, c", wrapped between its items, the lines after the first indented by two.
std::vector<std::string> wrapped_list(std::string_view title, const std::vector<std::string>& items,
                                      std::size_t width);

} // namespace mha::render
