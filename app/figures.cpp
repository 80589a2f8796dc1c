#include "figures.hpp"

#include "describe.hpp"

#include <fmt/ranges.h>

#include <algorithm>

namespace mha::app {

namespace {

bool is_picture(const std::string& form) {
  return form == "png" || form == "svg" || form == "pdf";
}

} // namespace

/// What is said of a figure, where one is drawn.
void FigureOptions::check(const std::string& form, const RunRequest& request,
                          const Common& common) {
  if (title && no_title) throw UsageError("--title and --no-title: give one of them");
  if (zoom && !(*zoom > 0))
    throw UsageError(fmt::format("--zoom is {}: more than 0 expected", *zoom));
  if (style.width == std::size_t{0}) throw UsageError("--width is 0: at least 1 expected");
  style.zoom = zoom.value_or(1);
  refuse_beside(form);
  const bool scaled = std::ranges::any_of(
      request.settings, [](const auto& setting) { return setting.first == "scale"; });
  if (scaled && is_picture(form) && !zoom && !style.width)
    print_note("--scale is what scores are multiplied by; --zoom and --width make a picture larger",
               common);
}

/// A picture in the terminal has a title; a table has none.
void FigureOptions::refuse_beside(const std::string& form) const {
  if (is_picture(form)) return;
  const bool in_terminal = form == "text";
  for (const auto& [given, name] :
       {std::pair(zoom.has_value(), "--zoom"), std::pair(style.width.has_value(), "--width"),
        std::pair(style.annotate, "--annotate"),
        std::pair(title.has_value() && !in_terminal, "--title"),
        std::pair(no_title && !in_terminal, "--no-title")})
    if (given)
      throw UsageError(fmt::format("{} is for pictures: write to FILE.png, FILE.svg or FILE.pdf{}",
                                   name, style.annotate ? "; " + numbers : ""));
}

std::string FigureOptions::title_of(std::string by_default) const {
  if (no_title) return "";
  return title.value_or(std::move(by_default));
}

void add_figure(Cli& cli, FigureOptions& figure, std::string numbers) {
  figure.numbers = std::move(numbers);
  cli.shared_group("The figure");
  cli.value("--width", "N", figure.style.width,
            "pixels that the picture is wide: panels as large as fit, letters keep their size");
  cli.value("--zoom", "X", figure.zoom,
            "everything X times as large: --zoom 3 of a PNG for print (--scale is the layer's)");
  cli.value("--title", "WORDS", figure.title, "the title; default: what is drawn, and the source");
  cli.flag("--no-title", figure.no_title, "no title, as for a figure with a caption");
  cli.flag("--annotate", figure.style.annotate, "every cell has its number on it");
}

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
