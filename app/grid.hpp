#pragma once
// --grid: numbers of heads as a picture, layers × heads, in the terminal or as PNG and SVG.

#include "figure_options.hpp"
#include "output.hpp"
#include <mha/render/head_grid.hpp>

namespace mha::app {

/// --grid of a command; `names`: the measures that it takes.
void add_grid_option(Cli& cli, std::string& measure, const std::vector<std::string>& names);

/// Returns png, svg, pdf or text, or an empty string if the output is no picture: neither --grid,
/// --format nor the path's extension asks for one. Throws UsageError for a format of numbers beside
/// --grid, Error if bytes of a PNG or PDF would go to a terminal.
std::string picture_format(const OutputOptions& output, bool grid_requested);

/// The format of the picture if the output is one, else that of the numbers.
std::string picture_or_form(const OutputOptions& output, bool grid_requested);

/// Where a picture goes, and as what.
struct GridFile {
  const std::string& path; ///< or standard output
  const std::string& form; ///< "text", "png", "svg" or "pdf"
  const FigureOptions& figure;
  Color color;
};

/// Writes the picture. `title`: the title unless the figure's options set another.
void write_grid(const GridFile& target, const std::string& title,
                const std::vector<render::MapPanel>& panels, render::GridLook look = {});

} // namespace mha::app
