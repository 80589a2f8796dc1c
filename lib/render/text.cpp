#include <mha/render/text.hpp>

#include <mha/system/characters.hpp>

#include <fmt/core.h>
#include <utf8proc.h>

namespace mha::render {

namespace {

/// One character of UTF-8: its bytes and its columns; a byte that belongs to none is one of its
/// own.
struct Character {
  std::size_t bytes = 1, columns = 1;
  bool valid = true;
  utf8proc_int32_t code = 0;
};

Character first_of(std::string_view text) {
  if (const auto byte = static_cast<unsigned char>(text[0]); byte < 0x80)
    return {1, byte < 0x20 || byte == 0x7f ? 0u : 1u, true, byte};
  const Utf8 first = first_utf8(text);
  if (!first.valid) return {1, 1, false, 0};
  const auto code = static_cast<utf8proc_int32_t>(first.code);
  return {first.bytes, static_cast<std::size_t>(utf8proc_charwidth(code)), true, code};
}

/// An escape sequence for colours at the start of the text, or 0: it takes no columns.
std::size_t escape_length(std::string_view text) {
  if (text.size() < 3 || text[0] != '\x1b' || text[1] != '[') return 0;
  const std::size_t end = text.find('m');
  return end == std::string_view::npos ? 0 : end + 1;
}

} // namespace

std::string TextStyle::bold(std::string_view text) const {
  return color && !text.empty() ? fmt::format("\x1b[1m{}\x1b[0m", text) : std::string(text);
}

std::string TextStyle::dim(std::string_view text) const {
  return color && !text.empty() ? fmt::format("\x1b[2m{}\x1b[0m", text) : std::string(text);
}

std::string typed(const Message& message) {
  return message.in_words(Wording::command_line);
}

std::size_t display_width(std::string_view text) {
  if (is_plain_ascii(text)) return text.size();
  std::size_t columns = 0;
  while (!text.empty()) {
    if (const std::size_t escape = escape_length(text); escape > 0) {
      text.remove_prefix(escape);
      continue;
    }
    const Character character = first_of(text);
    columns += character.columns;
    text.remove_prefix(character.bytes);
  }
  return columns;
}

std::string pad_left(std::string_view text, std::size_t width) {
  const std::size_t used = display_width(text);
  return std::string(used < width ? width - used : 0, ' ').append(text);
}

std::string pad_right(std::string_view text, std::size_t width) {
  const std::size_t used = display_width(text);
  return std::string(text).append(used < width ? width - used : 0, ' ');
}

std::string shortened(std::string_view text, std::size_t width) {
  if (display_width(text) <= width) return std::string(text);
  if (width == 0) return {};
  std::string cut;
  std::size_t columns = 0;
  for (;;) {
    const Character character = first_of(text);
    if (columns + character.columns > width - 1) return cut + "…";
    columns += character.columns;
    cut += text.substr(0, character.bytes);
    text.remove_prefix(character.bytes);
  }
}

std::string visible(std::string_view text) {
  if (is_plain_ascii(text)) return std::string(text);
  return escaped(text,
                 [](const Utf8& character, std::string_view bytes) -> std::optional<std::string> {
                   if (!character.valid)
                     return fmt::format("\\x{:02x}", static_cast<unsigned char>(bytes[0]));
                   if (bytes == "\n") return "\\n";
                   if (bytes == "\t") return "\\t";
                   if (bytes == "\r") return "\\r";
                   return safe_escape(character);
                 });
}

std::vector<std::string> broken(std::string_view text, std::size_t width) {
  std::vector<std::string> lines;
  for (const std::string& line : wrapped(text, width)) {
    std::string_view rest = line;
    while (width > 0 && display_width(rest) > width) {
      std::size_t at = 0, columns = 0, mark = 0, underscore = 0;
      while (at < rest.size()) {
        const std::size_t escape = escape_length(rest.substr(at));
        const Character character = escape > 0 ? Character{escape, 0} : first_of(rest.substr(at));
        if (columns + character.columns > width && at > 0) break;
        columns += character.columns;
        at += character.bytes;
        if (std::string_view("/.:,|").find(rest[at - 1]) != std::string_view::npos) mark = at;
        if (rest[at - 1] == '_') underscore = at;
      }
      const std::size_t cut = mark >= at / 2 && mark > 0 ? mark : underscore > 0 ? underscore : at;
      lines.emplace_back(rest.substr(0, cut));
      rest.remove_prefix(cut);
    }
    if (!rest.empty() || line.empty()) lines.emplace_back(rest);
  }
  return lines;
}

std::string in_lines(std::string_view text, std::size_t width) {
  if (display_width(text) <= width) return std::string(text);
  std::string lines;
  for (const std::string& line : wrapped(text, width)) lines += (lines.empty() ? "" : "\n") + line;
  return lines;
}

std::vector<std::string> wrapped(std::string_view text, std::size_t width) {
  std::vector<std::string> lines;
  std::string line;
  std::size_t used = 0;
  while (!text.empty()) {
    const std::size_t end = text.find_first_of(" \n");
    const std::string_view word = text.substr(0, end);
    const std::size_t columns = display_width(word);
    if (!line.empty() && used + 1 + columns > width) {
      lines.push_back(std::move(line));
      line.clear();
      used = 0;
    }
    if (!word.empty()) {
      if (!line.empty()) line += ' ', ++used;
      line += word;
      used += columns;
    }
    if (end == std::string_view::npos) break;
    if (text[end] == '\n') {
      lines.push_back(std::move(line));
      line.clear();
      used = 0;
    }
    text.remove_prefix(end + 1);
  }
  if (!line.empty()) lines.push_back(std::move(line));
  return lines;
}

std::string joined(const std::vector<std::string>& words, std::string_view last) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 == words.size() ? last : ", ";
    text += words[i];
  }
  return text;
}

std::string fitted_facts(std::string_view text, std::size_t used, std::size_t width) {
  constexpr std::string_view between = " · ";
  std::string out;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(between, 1));
    const std::size_t columns = display_width(part);
    const bool breaks = used + columns > width && part.starts_with(between) && used > 2;
    if (breaks && columns + 1 > width) { // a fact wider than a line
      std::string indent = "\n  ";
      for (const std::string& line : wrapped(part.substr(1), width > 24 ? width - 4 : 20)) {
        out += indent + line;
        used = indent.size() - 1 + display_width(line);
        indent = "\n    ";
      }
    } else {
      out += breaks ? "\n  " + std::string(part.substr(1)) : std::string(part);
      used = breaks ? columns + 1 : used + columns;
    }
    text.remove_prefix(part.size());
  }
  return out;
}

std::vector<std::string> wrapped_list(std::string_view title, const std::vector<std::string>& items,
                                      std::size_t width) {
  std::vector<std::string> lines = wrapped(fmt::format("{}:", title), width);
  std::string line = std::move(lines.back());
  lines.pop_back();
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::string_view comma = i + 1 < items.size() ? "," : "";
    if (display_width(line) + 1 + display_width(items[i]) + comma.size() > width) {
      lines.push_back(std::move(line));
      line = " ";
    }
    line += fmt::format(" {}{}", items[i], comma);
  }
  lines.push_back(std::move(line));
  return lines;
}

} // namespace mha::render
