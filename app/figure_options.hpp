#pragma once
// Options of a figure of maps: --width, --zoom, --title, --no-title, --annotate.

#include "options.hpp"
#include <mha/render/map.hpp>

#include <optional>
#include <string>

namespace mha::app {

struct FigureOptions {
  bool no_title = false;
  std::optional<std::string> title;
  std::optional<double> zoom;
  render::FigureStyle style;

  /// Throws UsageError for options that contradict each other, or that `form` ("text", "png" …)
  /// does not take; fills in the style.
  void check(const std::string& form, const Request& request, const Common& common);
};

void add_figure(Cli& cli, FigureOptions& figure);

} // namespace mha::app
