#pragma once
// The order of the rows of `stats`: --sort.

#include <mha/render/stats.hpp>

#include <string>
#include <vector>

namespace mha::app {

/// By a measure or by the kind, in a direction.
struct StatsOrder {
  const Measure* measure = nullptr; ///< null: the kind
  bool ascending = false;
};

/// --sort as it was typed: "entropy", "kind:desc". Throws UsageError for another direction than asc
/// and desc, Error for a name that is no measure.
StatsOrder stats_order_of(const std::string& text);

/// Equal rows stay as they are; heads without the measure come last.
void sort_rows(std::vector<render::StatsRow>& rows, const StatsOrder& order);

} // namespace mha::app
