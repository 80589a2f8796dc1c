#pragma once
// The choice among the measures of `stats`: columns, rows and their order.

#include "stats_texts.hpp"
#include <mha/render/stats.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mha::app {

/// The options as typed.
struct StatsChoice {
  std::vector<std::string> measures, kinds;
  std::string sort, grid;
  std::optional<std::size_t> top;
  bool all = false, subtract_uniform = false;
  TextStatsOptions texts;

  /// Resolves --measures all: every column, also in a table.
  void take_all();
  /// Throws UsageError for options without effect on --top-texts, which lists vectors, or on
  /// --grid, which shows one measure.
  void check_columns() const;
  /// Whether the output depends on a measure whose name starts with `name`: a column, or the kinds.
  bool shows(std::string_view name) const;
  /// The measures of --measures without repetition. Throws Error for an unknown name. `kind` adds
  /// no column, because each row has it.
  std::vector<const Measure*> columns_asked() const;
};

/// The order of rows: by a measure or by the kind.
struct StatsOrder {
  const Measure* measure = nullptr; ///< null: the kind
  bool ascending = false;
};

/// Reads --sort: "entropy", "kind:desc". Throws UsageError for a direction other than asc and desc,
/// Error for an unknown measure.
StatsOrder stats_order_of(const std::string& text);

/// Sorts stably; heads without the measure come last.
void sort_rows(std::vector<render::StatsRow>& rows, const StatsOrder& order);

} // namespace mha::app
