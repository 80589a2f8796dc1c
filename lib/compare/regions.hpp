#pragma once
// Regions of a stage in which numbers differ: batch items, heads and rows, grouped.

#include <cstddef>
#include <map>
#include <utility>
#include <vector>

namespace mha {

/// Numbers first … last.
struct IndexRange {
  std::size_t first = 0, last = 0;

  friend auto operator<=>(const IndexRange&, const IndexRange&) = default;
};
/// Ascending, none next to another.
using IndexRanges = std::vector<IndexRange>;

/// Appends a range that is not before the last one, joining adjacent ranges.
void append(IndexRanges& ranges, IndexRange next);
/// How many numbers the ranges hold.
std::size_t count_of(const IndexRanges& ranges);

/// Rows of heads of batch items: a number differs in each of these rows.
struct Region {
  IndexRanges items; ///< of the batch
  IndexRanges heads; ///< the stage's own heads: key/value heads in k and v
  IndexRanges rows;  ///< tokens: queries, or keys in k and v
  bool all_items = false, all_heads = false, all_rows = false;

  friend bool operator==(const Region&, const Region&) = default;
};

/// All regions, in the order of batch items and heads.
struct Regions {
  std::vector<Region> list;
  /// If false, there are too many regions: the list holds one that encloses all, in which some rows
  /// are equal.
  bool exact = true;
};

/// The rows of one head of one batch item.
struct RowsOfHead {
  IndexRanges wrong;
  std::size_t count = 0; ///< of all rows that were compared
};
/// By batch item and head.
using RowsByHead = std::map<std::pair<std::size_t, std::size_t>, RowsOfHead>;

/// Groups heads with the same rows, then batch items with the same heads and rows.
Regions regions_of(const RowsByHead& rows, std::size_t items, std::size_t heads);

} // namespace mha
