#pragma once
// Plans of a computation: its stages, batches, heads and blocks of queries.

#include <mha/layer/graph.hpp>
#include <mha/layer/select.hpp>

namespace mha {

/// Queries are computed in blocks of this many, selected or not, so that bits do not depend on it.
inline constexpr std::size_t block_queries = 256;
/// Keys that one product of scores covers.
inline constexpr std::size_t key_tile = 512;

/// A block of queries of one head: queries [256 · block, 256 · (block + 1)).
struct QueryBlock {
  std::size_t batch = 0, head = 0, block = 0;
};

struct Plan {
  Dims of;           ///< the sizes of the layer that it was made for
  StageSet wanted;   ///< what observers see
  StageSet computed; ///< what has to be computed for it: the closure, stopping at given stages
  StageSet needed;   ///< computed and the given ones that they start from or that are wanted
  std::vector<std::size_t> batches, heads, queries; ///< what the selection chose, in order
  std::vector<std::size_t> block_numbers;           ///< of the blocks that hold its queries
  /// Blocks in the order (batch, head, block): all of these, or those of a shard (shards.hpp). A
  /// layer without heads, or without queries, has blocks of head 0, or of block 0.
  std::vector<QueryBlock> blocks;
  /// Rows of every head are wanted side by side (concat, output, residual): a block of queries is
  /// not divided between parts.
  bool whole_rows = false;
};

/// The plan for some stages and a selection. Throws Error for a stage that the layer does not have,
/// or a selection of an axis that no stage has.
Plan make_plan(const Layer& layer, const StageSet& wanted, Selection selection = {});

/// Throws Error if the plan was made for a layer with other sizes, or computes other steps.
void require_plan_of(const Layer& layer, const Plan& plan);

/// As many threads as pay for a layer: one, or all cores.
std::size_t threads_for(const Layer& layer);
/// The same for the rest of the block.
std::size_t threads_around(const Layer& layer);

} // namespace mha
