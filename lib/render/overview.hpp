#pragma once
// A layer at a glance: its headline, and one line per stage.

#include <mha/naming/layer_words.hpp>
#include <mha/observe/summary.hpp>
#include <mha/render/renderers.hpp>
#include <mha/render/text.hpp>

namespace mha::render {

/// "data/induction layer 1 (LLaMA names) · 4 heads × 16 · T 33 · float32 · causal", with a line
/// break; between its parts it is cut to the columns that the look has.
std::string headline(std::string_view title, const LayerWords& words, const TextStyle& text_style);
/// The same in one line, however long, without a break.
std::string headline_text(std::string_view title, const LayerWords& words);

struct OverviewRow {
  std::string layer; ///< "" where the layer has no number
  Stage stage = Stage::x;
  Shape shape;
  DType dtype = DType::f32;
  Summary summary;
  std::string formula; ///< as the layer computes it
};

/// One of `result_forms`: layer, stage, shape, dtype, min, max, mean, nan, infinite; as json one
/// object keyed by stage. For readers the formula, and counts of NaN and infinity only where there
/// are some.
std::string overview_text(const std::vector<OverviewRow>& rows, const Options& options,
                          std::string_view form);

} // namespace mha::render
