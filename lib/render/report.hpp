#pragma once
// Layers as one self-contained page of HTML.

#include <mha/render/text.hpp>
#include <mha/report/report.hpp>

namespace mha::render {

/// What the page is called, and where it comes from.
struct ReportTitle {
  std::string title;   ///< "data/induction"
  std::string program; ///< "mha-inspect 0.3.0"
};

/// The whole page, piece by piece: template, the layers as JSON, their packed rows. Whatever labels
/// and names hold is data there, never markup.
void report_page(const std::vector<LayerReport>& layers, const ReportTitle& title,
                 const Sink& sink);

} // namespace mha::render
