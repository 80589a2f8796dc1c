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

void FigureOptions::check(const std::string& form, const RunRequest& request,
                          const Common& common) {
  if (title && no_title)
    throw UsageError("--title and --no-title contradict each other; give one of them");
  if (zoom && !(*zoom > 0))
    throw UsageError(fmt::format("--zoom is {}: more than 0 expected", *zoom));
  if (style.width == std::size_t{0}) throw UsageError("--width is 0: at least 1 expected");
  style.zoom = zoom.value_or(1);
  refuse_picture_options(form);
  const bool gives_scale = std::ranges::any_of(
      request.settings, [](const auto& setting) { return setting.first == "scale"; });
  if (gives_scale && is_picture(form) && !zoom && !style.width)
    print_note("--scale multiplies the scores; use --zoom or --width for a larger picture", common);
}

/// Throws UsageError for an option that only pictures have. A picture in the terminal, which is
/// text, can still have a title.
void FigureOptions::refuse_picture_options(const std::string& form) const {
  if (is_picture(form)) return;
  const bool in_terminal = form == "text";
  for (const auto& [given, name] :
       {std::pair(zoom.has_value(), "--zoom"), std::pair(style.width.has_value(), "--width"),
        std::pair(style.annotate, "--annotate"),
        std::pair(title.has_value() && !in_terminal, "--title"),
        std::pair(no_title && !in_terminal, "--no-title")})
    if (given)
      throw UsageError(
          fmt::format("{} applies to pictures: write to FILE.png, FILE.svg or FILE.pdf{}", name,
                      style.annotate ? "; " + numbers_hint : ""));
}

std::string FigureOptions::title_of(std::string default_title) const {
  if (no_title) return "";
  return title.value_or(std::move(default_title));
}

void add_figure(Cli& cli, FigureOptions& figure, std::string numbers_hint) {
  figure.numbers_hint = std::move(numbers_hint);
  cli.shared_group("The figure");
  cli.value("--width", "N", figure.style.width,
            "the width in pixels; panels grow to fill it, text keeps its size");
  cli.value(
      "--zoom", "X", figure.zoom,
      "enlarge everything X times, such as --zoom 3 for a printed PNG (--scale is a setting of the "
      "layer)");
  cli.value("--title", "WORDS", figure.title,
            "the title; default: the stage or measure, and the source");
  cli.flag("--no-title", figure.no_title, "no title, for a figure with a caption");
  cli.flag("--annotate", figure.style.annotate, "print the number of each cell in it");
}

void add_grid_option(Cli& cli, std::string& measure, const std::vector<std::string>& names) {
  std::string help = "draw layers × heads coloured by this measure, in the terminal or with -o "
                     "FILE.png, FILE.svg or FILE.pdf";
  constexpr std::size_t max_listed_names = 10; // longer lists do not fit the help
  if (names.size() <= max_listed_names) help += fmt::format("; one of {}", fmt::join(names, ", "));
  Option& grid = cli.value("--grid", "MEASURE", measure, help).offers(names);
  grid.chooses = false; // the same numbers are computed without it
}

std::string picture_format(const OutputOptions& output, bool grid_requested) {
  const std::string form = form_of(output);
  if (form == "png" || form == "svg" || form == "pdf") {
    // An SVG is text, which a terminal can show.
    if (form != "svg" && output.to_standard_output() && output_is_terminal())
      fail("a {} is not written to a terminal; give --output, or pipe it into a program",
           form == "png" ? "PNG" : "PDF");
    return form;
  }
  if (form == "text") return "text";
  if (!grid_requested) return "";
  if (form != "table")
    throw UsageError(fmt::format("--grid draws a picture as text, .png, .svg or .pdf, not as {}; "
                                 "leave out --grid for the numbers as {}",
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
