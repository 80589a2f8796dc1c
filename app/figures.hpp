#pragma once
// Figures: the options of every figure, and --grid, a picture of layers × heads.

#include "options.hpp"
#include "output.hpp"
#include <mha/render/head_grid.hpp>
#include <mha/render/map.hpp>

#include <optional>
#include <string>

namespace mha::app {

struct FigureOptions {
  bool no_title = false;
  std::optional<std::string> title;
  std::optional<double> zoom;
  render::FigureStyle style;
  std::string numbers_hint; ///< how to print the same numbers, for messages

  /// Fills in the style. Throws UsageError for options that contradict each other or do not apply
  /// to `form`: "text" and the formats of tables are not pictures.
  void check(const std::string& form, const RunRequest& request, const Common& common);
  /// The title, `default_title` unless the options set another; "" for none.
  std::string title_of(std::string default_title) const;

private:
  void refuse_picture_options(const std::string& form) const;
};

/// `numbers_hint`: how to get a picture's numbers, "`show` prints a map's numbers".
void add_figure(Cli& cli, FigureOptions& figure, std::string numbers_hint);

/// Declares --grid; `names` are the measures that it accepts.
void add_grid_option(Cli& cli, std::string& measure, const std::vector<std::string>& names);

/// Returns png, svg, pdf or text, or an empty string if neither --grid, --format nor the path's
/// extension asks for a picture. Throws UsageError for a format of numbers with --grid, Error if
/// the bytes of a PNG or PDF would go to a terminal.
std::string picture_format(const OutputOptions& output, bool grid_requested);

/// The format of the picture, or of the numbers if there is none.
std::string picture_or_form(const OutputOptions& output, bool grid_requested);

/// The target of a picture, and its format.
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
