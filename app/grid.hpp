#pragma once
// --grid: numbers of heads as a picture, layers × heads, in the terminal or as PNG and SVG.

#include "output.hpp"
#include <mha/render/head_grid.hpp>

namespace mha::app {

/// --grid of a command; `names`: the measures that it takes.
void add_grid(Cli& cli, std::string& measure, const std::vector<std::string>& names);

/// "text", "png", "svg" or "pdf" where a picture is asked for: by --grid, --format or the path's
/// extension; else "". Throws Error for a path or format that is of numbers, beside --grid.
std::string grid_form(const OutputOptions& output, bool asked);

/// Writes the picture to the path, or to standard output.
void write_grid(const std::string& path, const std::string& form, const std::string& title,
                const std::vector<render::GridPanel>& panels, const render::GridLook& how,
                Color color);

} // namespace mha::app
