#pragma once
// The measures of heads: a row each.

#include <mha/heads/measures.hpp>
#include <mha/render/table.hpp>

namespace mha::render {

/// A head of a layer.
struct StatsRow {
  std::string layer; ///< "" where the layer has no number
  HeadMeasures head;
};

/// Which measures stand in the columns; layer, head and kind always do.
using StatsColumns = std::vector<const Measure*>;

/// A line a head.
Table stats_table(const std::vector<StatsRow>& rows, const StatsColumns& columns);
/// The measures that tell the most and fit the width, without those that no head has, as "table" or
/// "markdown". A last line says that there are more. `above`: less what equal weights would score.
std::string telling_stats(const std::vector<StatsRow>& rows, bool above, std::string_view form,
                          const TextStyle& text_style);
/// The measures asked for, for a terminal: where they do not fit side by side, a line is a measure
/// and a column a head.
std::string chosen_stats(const std::vector<StatsRow>& rows, const StatsColumns& columns,
                         const TextStyle& text_style);

} // namespace mha::render
