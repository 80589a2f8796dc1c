#include <mha/render/map_terminal.hpp>

#include <mha/render/label.hpp>
#include <mha/system/one_of.hpp>

#include <utf8proc.h>

#include <algorithm>

namespace mha::render {

namespace {

constexpr std::size_t most_letters = 6; ///< of a token below its column

/// The label of a line: its one or two tokens, or every fourth line's position.
std::string line_label(const MapAxis& axis, std::size_t line, std::size_t tokens_a_line) {
  const std::size_t first = line * tokens_a_line,
                    last = std::min(first + tokens_a_line, axis.positions.size());
  if (axis.labels.empty() || tokens_a_line > 2) {
    const bool shown = tokens_a_line == 1 || line % 4 == 0;
    return shown ? std::to_string(axis.positions[first]) : std::string();
  }
  std::string label;
  for (std::size_t i = first; i < last; ++i) {
    if (i > first) label += ' ';
    label += shortened(readable(axis.labels[i]), tokens_a_line == 1 ? 12 : 6);
  }
  return label;
}

} // namespace

std::vector<std::string> letters_of(const std::string& label, bool wide) {
  const std::string text = readable(label);
  std::vector<std::string> letters;
  for (std::size_t i = 0; i < text.size();) {
    const auto length = static_cast<std::size_t>(
        std::max<int>(utf8proc_utf8class[static_cast<unsigned char>(text[i])], 1));
    const std::string letter = text.substr(i, length);
    i += length;
    const std::size_t width = display_width(letter);
    if (width == 0 && !letters.empty())
      letters.back() += letter;
    else
      letters.push_back(width <= (wide ? 2u : 1u) ? letter
                                                  : "…"); // no room for a Chinese character
  }
  if (letters.size() > most_letters) letters.resize(most_letters - 1), letters.emplace_back("…");
  return letters;
}

std::size_t stack_height(const MapAxis& axis, bool wide) {
  std::size_t height = 0, cut = 0;
  for (const std::string& label : axis.labels) {
    const std::vector<std::string> letters = letters_of(label, wide);
    height = std::max(height, letters.size());
    cut += is_one_of("…", letters);
  }
  return 4 * cut > axis.labels.size() ? 0 : height;
}

std::vector<std::string> line_labels(const MapAxis& axis, std::size_t tokens_a_line) {
  std::vector<std::string> labels;
  const std::size_t lines = (axis.positions.size() + tokens_a_line - 1) / tokens_a_line;
  for (std::size_t line = 0; line < lines; ++line)
    labels.push_back(line_label(axis, line, tokens_a_line));
  return labels;
}

std::size_t widest(const std::vector<std::string>& texts) {
  std::size_t width = 0;
  for (const std::string& text : texts) width = std::max(width, display_width(text));
  return width;
}

} // namespace mha::render
