#pragma once
// Layers as one self-contained page of HTML.

#include <mha/render/text.hpp>
#include <mha/report/report.hpp>

#include <string_view>

namespace mha::render {

/// The title of the page, and the program that made it.
struct ReportTitle {
  std::string title;   ///< "data/induction"
  std::string program; ///< "mha-inspect 0.3.0"
};

/// The whole page, piece by piece: template, the layers as JSON, their packed rows. Whatever labels
/// and names hold is data there, never markup.
void report_page(const std::vector<LayerReport>& layers, const ReportTitle& title,
                 const Sink& sink);

/// The page without its data: lib/render/page/, put into the program by page/embed.cmake.
/// Up to the title's text; from there to where the data goes; from there to the end.
extern const std::string_view page_start, page_middle, page_end;

} // namespace mha::render
