#pragma once
// The choice among the measures of `stats`: columns, rows and their order.

#include "stats_texts.hpp"
#include <mha/render/stats.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mha::app {

/// The options as they were typed.
struct StatsChoice {
  std::vector<std::string> measures, kinds;
  std::string sort, grid;
  std::optional<std::size_t> top;
  bool all = false, less_uniform = false;
  TextStatsOptions texts;

  /// What --measures all means: every column, also in a table.
  void take_all();
  /// Throws UsageError for options of which --top-texts and --grid have no use: the one lists
  /// vectors, the other is of one measure.
  void check_columns() const;
  /// Whether something that is shown depends on a measure that `name` begins: a column, or kinds.
  bool shows(std::string_view name) const;
  /// Those of --measures, each once. Throws Error for a name that is none; `kind`, which stands in
  /// each row, adds no column.
  std::vector<const Measure*> columns_asked() const;
};

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
