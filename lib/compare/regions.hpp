#pragma once
// Regions of a stage in which numbers differ: batch items, heads and rows, put together.

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

/// Appends what is not before the last one: joined with it where it is the next.
void append(IndexRanges& ranges, IndexRange next);
/// How many numbers they hold.
std::size_t count_of(const IndexRanges& ranges);

/// Rows of heads of batch items: in each row of each of them, a number differs.
struct Region {
  IndexRanges items; ///< of the batch
  IndexRanges heads; ///< the stage's own: key/value heads of k and v
  IndexRanges rows;  ///< tokens: queries, or keys of k and v
  bool all_items = false, all_heads = false, all_rows = false;

  friend bool operator==(const Region&, const Region&) = default;
};

/// All of them, in the order of batch items and heads.
struct Regions {
  std::vector<Region> list;
  /// Otherwise they are too many, and the list holds one that is around all: not each of its rows
  /// differs.
  bool exact = true;
};

/// The rows of one head of one batch item.
struct RowsOfHead {
  IndexRanges wrong;
  std::size_t count = 0; ///< of all rows that were compared
};
/// By batch item and head.
using RowsByHead = std::map<std::pair<std::size_t, std::size_t>, RowsOfHead>;

/// Heads with the same rows are put together, then batch items with the same heads and rows.
Regions regions_of(const RowsByHead& rows, std::size_t items, std::size_t heads);

} // namespace mha
