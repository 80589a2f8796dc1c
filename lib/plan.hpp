#pragma once
// What to compute: which stages, for which batches, heads and blocks of queries.

#include "graph.hpp"
#include "select.hpp"

namespace mha {

/// Queries are computed in blocks of this many, selected or not, so that bits do not depend on it.
inline constexpr std::size_t block_queries = 256;
/// Keys that one product of scores covers.
inline constexpr std::size_t key_tile = 512;

struct Plan {
  StageSet wanted;   ///< what is handed out
  StageSet computed; ///< what has to be computed for it: the closure, stopping at given stages
  StageSet needed;   ///< computed and the given ones that they start from or that are wanted
  std::vector<std::size_t> batches, heads;
  std::vector<std::size_t> blocks; ///< numbers of blocks of block_queries queries
};

/// The plan for some stages and a selection. Throws Error for a stage that the layer does not have,
/// or a selection of an axis that no stage has.
Plan make_plan(const Layer& layer, const StageSet& wanted, const Selection& selection = {});

/// Some rows of a token stage: what one task computes.
struct RowTile {
  std::size_t batch, first, count;
};
/// The tiles of a stage of so many rows a batch; of queries, only those in the plan's blocks. Their
/// height follows from the shape alone.
std::vector<RowTile> row_tiles(const Plan& plan, std::size_t rows, bool of_queries);

/// As many threads as pay for a layer: one, or all cores.
std::size_t threads_for(const Layer& layer);

} // namespace mha
