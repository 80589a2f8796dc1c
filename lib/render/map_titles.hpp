#pragma once
// The titles above a picture's panels, as long and as large as the panels are wide.

#include <mha/render/map.hpp>

namespace mha::render {

struct MapTitles {
  double size = 0;   ///< pixels of the em square
  double widest = 0; ///< pixels; more than there is room for only where not even the least fits
  std::vector<std::vector<std::string>> lines; ///< of each panel, from above; as many for each
};

/// "layer 1 head 3" where that fits into `room` pixels, else "L1 H3", else in smaller letters; with
/// --per-head-range the colours' ends beside it or below. All panels are titled alike.
MapTitles fit_titles(const MapPicture& picture, double room);

} // namespace mha::render
