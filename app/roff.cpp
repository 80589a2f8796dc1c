#include "roff.hpp"
#include <mha/system/characters.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

namespace mha::app::roff {

namespace {

std::string_view manual_of_section(int section) {
  return section == 1   ? "User Commands"
         : section == 5 ? "File Formats Manual"
                        : "Miscellaneous Information Manual";
}

} // namespace

std::string text(std::string_view utf8) {
  const std::string plain = with_replaced(utf8, {{'\\', "\\e"},
                                                 {'-', "\\-"},
                                                 {'\'', "\\(aq"},
                                                 {'"', "\\(dq"},
                                                 {'`', "\\(ga"},
                                                 {'^', "\\(ha"},
                                                 {'~', "\\(ti"},
                                                 {'\n', " "}});
  const std::string out =
      escaped(plain, [](const Utf8& character, std::string_view) -> std::optional<std::string> {
        if (character.code < 0x80) return std::nullopt;
        return fmt::format("\\[u{:04X}]", static_cast<std::uint32_t>(character.code));
      });
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
