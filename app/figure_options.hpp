#pragma once
// Options of a figure, whatever it is of: --width, --zoom, --title, --no-title, --annotate.

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
  std::string numbers; ///< how the same numbers are printed, for messages

  /// Throws UsageError for options that contradict each other, or that `form` does not take: "text"
  /// and the formats of tables are no pictures; fills in the style.
  void check(const std::string& form, const RunRequest& request, const Common& common);
  /// The title of a figure that is called `by_default`; "": none.
  std::string title_of(std::string by_default) const;

private:
  void refuse_beside(const std::string& form) const;
};

/// `numbers`: how a reader gets the numbers of a picture, "`show` prints a map's numbers".
void add_figure(Cli& cli, FigureOptions& figure, std::string numbers);

} // namespace mha::app
