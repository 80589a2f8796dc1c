#pragma once
// --grid: numbers of heads as a picture, layers × heads, in the terminal or as PNG and SVG.

#include "figure_options.hpp"
#include "output.hpp"
#include <mha/render/head_grid.hpp>

namespace mha::app {

/// --grid of a command; `names`: the measures that it takes.
void add_grid_option(Cli& cli, std::string& measure, const std::vector<std::string>& names);

/// "text", "png", "svg" or "pdf" where a picture is asked for: by --grid, --format or the path's
/// extension; else "". Throws Error for a path or format that is of numbers, beside --grid.
std::string picture_format(const OutputOptions& output, bool grid_requested);

/// The form of a picture, where one is asked for, else of the numbers.
std::string picture_or_form(const OutputOptions& output, bool grid_requested);

/// Where a picture goes, and as what.
struct GridFile {
  const std::string& path; ///< or standard output
  const std::string& form; ///< "text", "png", "svg" or "pdf"
  const FigureOptions& figure;
  Color color;
};

/// Writes the picture. `title`: what it is called where the figure's options say nothing else.
void write_grid(const GridFile& target, const std::string& title,
                const std::vector<render::GridPanel>& panels, render::GridLook look = {});

} // namespace mha::app
