#pragma once
// The measures of heads: a row each, for eyes and for programs.

#include <mha/heads/measures.hpp>
#include <mha/render/text.hpp>

namespace mha::render {

/// A head of a layer.
struct StatsRow {
  std::string layer; ///< "" where the layer has no number
  HeadMeasures head;
};

/// Which measures stand in the columns; layer, head and kind always do.
using StatsColumns = std::vector<const Measure*>;

/// Those that tell the most and fit into the width, without those that no head has. A last line
/// says how many there are beside them. `above`: less what equal weights would score.
std::string stats_table(const std::vector<StatsRow>& rows, bool above, const TextStyle& text_style);
/// The measures asked for. Where they do not fit side by side, a line is a measure and a column a
/// head.
std::string stats_table(const std::vector<StatsRow>& rows, const StatsColumns& columns,
                        const TextStyle& text_style);

/// A text form for programs: csv, tsv, json (a list of objects) or ndjson. What is not there is
/// empty, or null.
std::string stats_text(const std::vector<StatsRow>& rows, const StatsColumns& columns,
                       std::string_view form, std::optional<std::size_t> precision = std::nullopt);

} // namespace mha::render
