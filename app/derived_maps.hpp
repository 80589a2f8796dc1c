#pragma once
// map -s weights_mean, rollout and other derived stages: matrices of queries, keys or heads.

#include "figures.hpp"
#include "output.hpp"
#include <mha/render/map.hpp>

namespace mha::app {

/// How to draw a derived stage.
struct DerivedPictures {
  const Selection& selection;
  const OutputOptions& output;
  const std::string& form; ///< "text", "png", "svg" or "pdf"
  const render::MapColors& colors;
  const FigureOptions& figure;
};

/// Draws the request's only stage for the chosen layers.
void draw_derived(const RunRequest& request, const DerivedPictures& asked, Common& common);

} // namespace mha::app
