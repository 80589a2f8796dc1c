#include "grid.hpp"

#include <fmt/ranges.h>

namespace mha::app {

void add_grid(Cli& cli, std::string& measure, const std::vector<std::string>& names) {
  std::string help =
      "layers × heads as a picture, coloured by this measure: in the terminal, or -o "
      "FILE.png, FILE.svg or FILE.pdf";
  constexpr std::size_t most = 10; // of a line of help
  if (names.size() <= most) help += fmt::format("; one of {}", fmt::join(names, ", "));
  cli.value("--grid", "MEASURE", measure, help).offers(names);
}

std::string grid_form(const OutputOptions& output, bool asked) {
  const std::string form = form_of(output);
  if (form == "png" || form == "svg" || form == "pdf") {
    if (form != "svg" && output.to_standard_output() && output_is_terminal())
      fail("bytes of a {} do not belong on a terminal; give --output, or pipe them on",
           form == "png" ? "PNG" : "PDF");
    return form;
  }
  if (form == "text") return "text";
  if (!asked) return "";
  if (form != "table")
    throw UsageError(
        fmt::format("--grid is a picture: text, .png, .svg or .pdf, and not {}; without it "
                    "{} has the numbers",
                    form, form));
  return "text";
}

std::string picture_or_form(const OutputOptions& output, bool asked) {
  const std::string picture = grid_form(output, asked);
  return picture.empty() ? form_of(output) : picture;
}

void write_grid(const GridFile& to, const std::string& title,
                const std::vector<render::GridPanel>& panels, render::GridLook how) {
  render::TextStyle text_style = text_style_of_output(to.color);
  if (!to.path.empty() && to.path != "-") text_style = {false, text_style.width};
  const std::string above = to.figure.title_of(title);
  how.figure = to.figure.style;
  write_text(to.path, to.form == "png"   ? render::grid_png(above, panels, how)
                      : to.form == "svg" ? render::grid_svg(above, panels, how)
                      : to.form == "pdf" ? render::grid_pdf(above, panels, how)
                                         : render::grid_text(above, panels, how, text_style));
}

} // namespace mha::app
