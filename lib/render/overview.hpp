#pragma once
// One line per stage: shape, formula, smallest, largest, mean.

#include <mha/observe/summary.hpp>
#include <mha/render/renderers.hpp>

namespace mha::render {

struct OverviewRow {
  std::string layer; ///< "" where the layer has no number
  Stage stage = Stage::x;
  Shape shape;
  DType dtype = DType::f32;
  Summary summary;
  std::string formula; ///< as the layer computes it
};

/// One of `result_forms`: layer, stage, shape, dtype, min, max, mean, nan, infinite; as json one
/// object keyed by stage. For eyes the formula, and counts of NaN and infinity only where there are
/// some.
std::string overview_text(const std::vector<OverviewRow>& rows, const Options& options,
                          std::string_view form);

} // namespace mha::render
