#pragma once
// The man macros that groff and mandoc read.

#include <string>
#include <string_view>

namespace mha::app::roff {

/// Text that roff prints literally: requests are escaped, dashes stay ASCII, other signs are
/// numbers.
std::string text(std::string_view utf8);
std::string bold(std::string_view utf8);
std::string italic(std::string_view utf8);

/// The start of a page with its name: "mha-inspect-formats", 5, "what is read and written".
std::string title(std::string_view page, int section, std::string_view summary);
/// A heading (.SH), and one below it (.SS).
std::string heading(std::string_view utf8);
std::string subheading(std::string_view utf8);
/// A paragraph of plain text.
std::string paragraph(std::string_view utf8);
/// A term in roff, explained by plain text.
std::string entry(const std::string& term, std::string_view utf8);
/// A command line to copy.
std::string line(std::string_view utf8);
/// Another page: {"mha-inspect", 1}.
struct Page {
  std::string name;
  int section = 1;
};
std::string see_also(std::initializer_list<Page> pages);

} // namespace mha::app::roff
