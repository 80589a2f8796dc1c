#include "grid.hpp"

#include <fmt/ranges.h>

namespace mha::app {

void add_grid_option(Cli& cli, std::string& measure, const std::vector<std::string>& names) {
  std::string help =
      "layers × heads as a picture, coloured by this measure: in the terminal, or -o "
      "FILE.png, FILE.svg or FILE.pdf";
  constexpr std::size_t max_listed_names = 10; // longer lists do not fit the help
  if (names.size() <= max_listed_names) help += fmt::format("; one of {}", fmt::join(names, ", "));
  cli.value("--grid", "MEASURE", measure, help).offers(names).chooses = false; // a picture's
}

std::string picture_format(const OutputOptions& output, bool grid_requested) {
  const std::string form = form_of(output);
  if (form == "png" || form == "svg" || form == "pdf") {
    // An SVG is text, which a terminal can show.
    if (form != "svg" && output.to_standard_output() && output_is_terminal())
      fail("bytes of a {} do not belong on a terminal; give --output, or pipe them on",
           form == "png" ? "PNG" : "PDF");
    return form;
  }
  if (form == "text") return "text";
  if (!grid_requested) return "";
  if (form != "table")
    throw UsageError(
        fmt::format("--grid is a picture: text, .png, .svg or .pdf, and not {}; without it "
                    "{} has the numbers",
                    form, form));
  return "text";
}

std::string picture_or_form(const OutputOptions& output, bool grid_requested) {
  const std::string picture = picture_format(output, grid_requested);
  return picture.empty() ? form_of(output) : picture;
}

void write_grid(const GridFile& target, const std::string& title,
                const std::vector<render::MapPanel>& panels, render::GridLook look) {
  render::TextStyle text_style = text_style_of_output(target.color);
  // A file gets no colours.
  if (!target.path.empty() && target.path != "-") text_style = {false, text_style.width};
  const std::string full_title = target.figure.title_of(title);
  look.figure = target.figure.style;
  write_text(target.path, target.form == "png"   ? render::grid_png(full_title, panels, look)
                          : target.form == "svg" ? render::grid_svg(full_title, panels, look)
                          : target.form == "pdf"
                              ? render::grid_pdf(full_title, panels, look)
                              : render::grid_text(full_title, panels, look, text_style));
}

} // namespace mha::app
