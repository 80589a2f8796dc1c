#include "roff.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

namespace mha::app::roff {

namespace {

/// The code point that begins at `at`, which moves on behind it. The texts are ours: valid UTF-8.
std::uint32_t next_code(std::string_view utf8, std::size_t& at) {
  const auto byte = [&] { return static_cast<unsigned char>(utf8[at++]); };
  const std::uint32_t first = byte();
  const int more = first < 0x80 ? 0 : first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
  std::uint32_t code = more == 0 ? first : first & (0x3fu >> more);
  for (int i = 0; i < more && at < utf8.size(); ++i) code = code << 6 | (byte() & 0x3fu);
  return code;
}

std::string_view manual_of_section(int section) {
  return section == 1   ? "User Commands"
         : section == 5 ? "File Formats Manual"
                        : "Miscellaneous Information Manual";
}

} // namespace

std::string text(std::string_view utf8) {
  std::string out;
  for (std::size_t at = 0; at < utf8.size();) {
    const std::uint32_t code = next_code(utf8, at);
    if (code == '\\')
      out += "\\e";
    else if (code == '-')
      out += "\\-";
    else if (code == '\'')
      out += "\\(aq";
    else if (code == '"')
      out += "\\(dq";
    else if (code == '`')
      out += "\\(ga";
    else if (code == '^')
      out += "\\(ha";
    else if (code == '~')
      out += "\\(ti";
    else if (code == '\n')
      out += ' ';
    else if (code < 0x80)
      out += static_cast<char>(code);
    else
      out += fmt::format("\\[u{:04X}]", code);
  }
  return out.starts_with('.') ? "\\&" + out : out;
}

std::string bold(std::string_view utf8) {
  return "\\fB" + text(utf8) + "\\fR";
}
std::string italic(std::string_view utf8) {
  return "\\fI" + text(utf8) + "\\fR";
}

std::string title(std::string_view page, int section, std::string_view summary) {
  std::string upper(page);
  std::transform(upper.begin(), upper.end(), upper.begin(),
                 [](char c) { return 'a' <= c && c <= 'z' ? static_cast<char>(c - 32) : c; });
  return fmt::format(".TH {} {} {} \"mha\\-inspect {}\" \"{}\"\n.SH NAME\n{} \\- {}\n", text(upper),
                     section, MHA_RELEASED, MHA_VERSION, manual_of_section(section), text(page),
                     text(summary));
}

std::string heading(std::string_view utf8) {
  return ".SH \"" + text(utf8) + "\"\n";
}
std::string subheading(std::string_view utf8) {
  return ".SS \"" + text(utf8) + "\"\n";
}
std::string paragraph(std::string_view utf8) {
  return ".PP\n" + text(utf8) + "\n";
}
std::string entry(const std::string& term, std::string_view utf8) {
  return ".TP\n" + term + "\n" + text(utf8) + "\n";
}
std::string line(std::string_view utf8) {
  return ".PP\n.RS 4\n.nf\n" + text(utf8) + "\n.fi\n.RE\n";
}

std::string see_also(std::initializer_list<Page> pages) {
  std::string out = heading("SEE ALSO");
  std::size_t left = pages.size();
  for (const Page& page : pages)
    out += fmt::format(".BR {} ({}){}\n", text(page.name), page.section, --left > 0 ? "," : "");
  return out;
}

} // namespace mha::app::roff
