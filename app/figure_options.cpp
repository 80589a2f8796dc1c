#include "figure_options.hpp"

#include "describe.hpp"

#include <algorithm>

namespace mha::app {

/// What is said of a figure, where one is drawn.
void FigureOptions::check(const std::string& form, const Request& request, const Common& common) {
  if (title && no_title) throw UsageError("--title and --no-title: give one of them");
  if (zoom && !(*zoom > 0))
    throw UsageError(fmt::format("--zoom is {}: more than 0 expected", *zoom));
  if (style.width == std::size_t{0}) throw UsageError("--width is 0: at least 1 expected");
  style.zoom = zoom.value_or(1);
  const bool scaled = std::ranges::any_of(
      request.settings, [](const auto& setting) { return setting.first == "scale"; });
  if (scaled && form != "text" && !zoom && !style.width && !common.quiet)
    print_note("--scale is what scores are multiplied by; --zoom and --width make a picture larger",
               common.color);
  if (form != "text") return;
  for (const auto& [given, name] :
       {std::pair(zoom.has_value(), "--zoom"), std::pair(style.width.has_value(), "--width"),
        std::pair(style.annotate, "--annotate")})
    if (given)
      throw UsageError(fmt::format("{} is for pictures: write to FILE.png, FILE.svg or FILE.pdf{}",
                                   name, style.annotate ? "; `show` prints a map's numbers" : ""));
}

void add_figure(Cli& cli, FigureOptions& figure) {
  cli.group("The figure");
  cli.value("--width", "N", figure.style.width,
            "pixels that the picture is wide: panels as large as fit, letters keep their size");
  cli.value("--zoom", "X", figure.zoom,
            "everything X times as large: --zoom 3 of a PNG for print (--scale is the layer's)");
  cli.value("--title", "WORDS", figure.title, "the title; default: the stage and the source");
  cli.flag("--no-title", figure.no_title, "no title, as for a figure with a caption");
  cli.flag("--annotate", figure.style.annotate, "every cell has its number on it");
}

} // namespace mha::app
