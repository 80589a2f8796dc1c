#include "figure_options.hpp"

#include "describe.hpp"

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

} // namespace mha::app
