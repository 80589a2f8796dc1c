#pragma once
// What to compute: which stages, for which batches, heads and blocks of queries.

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
  StageSet wanted;   ///< what is handed out
  StageSet computed; ///< what has to be computed for it: the closure, stopping at given stages
  StageSet needed;   ///< computed and the given ones that they start from or that are wanted
  std::vector<std::size_t> batches, heads; ///< what the selection chose
  std::vector<std::size_t> block_numbers;  ///< of the blocks that hold its queries
  /// Blocks in the order (batch, head, block): all of these, or those of a shard (shards.hpp). A
  /// layer without heads, or without queries, has blocks of head 0, or of block 0.
  std::vector<QueryBlock> blocks;
  /// Rows of every head are wanted side by side (concat, output, residual): a block of queries is
  /// not divided between parts.
  bool whole_rows = false;
};

/// The plan for some stages and a selection. Throws Error for a stage that the layer does not have,
/// or a selection of an axis that no stage has.
Plan make_plan(const Layer& layer, const StageSet& wanted, const Selection& selection = {});

/// Heads side by side: [first, last).
struct HeadRange {
  std::size_t first = 0, last = 0;
};

/// Some rows of a token stage, of some of its heads: what one task computes.
struct Tile {
  std::size_t batch = 0, first = 0, count = 0;
  HeadRange heads;
};
/// The blocks of queries of the plan's blocks, and the heads that they span.
std::vector<Tile> query_rows(const Layer& layer, const Plan& plan);
/// All `rows` rows of each batch item of the blocks, and the key/value heads that they read; where
/// nothing attends to them, those that places_of() shows.
std::vector<Tile> key_rows(const Layer& layer, const Plan& plan, std::size_t rows);
/// All `rows` rows of the batch items of some rows.
std::vector<Tile> whole_items(const std::vector<Tile>& some, std::size_t rows);
/// The same rows in tiles, whose height follows from the number of a batch item's rows alone.
std::vector<Tile> row_tiles(const std::vector<Tile>& runs, std::size_t rows);
/// The same rows, each run cut by its heads into at most `pieces`, which begin where a multiple of
/// `step` columns does; a head has `width` columns.
std::vector<Tile> head_tiles(const std::vector<Tile>& runs, std::size_t width, std::size_t step,
                             std::size_t pieces);

/// A piece of a stage that is handed out at once: one head (key/value head of k and v; 0 of a stage
/// without heads) and some tokens.
struct Place {
  std::size_t batch = 0, head = 0, token = 0, count = 0;
};
/// The pieces of a wanted stage that the plan's blocks hand out. What has no heads belongs to the
/// first head of the selection; keys and values to the block that is the first to read them. So
/// each belongs to one part.
std::vector<Place> places_of(const Layer& layer, const Plan& plan, Stage stage);

/// As many threads as pay for a layer: one, or all cores.
std::size_t threads_for(const Layer& layer);

} // namespace mha
