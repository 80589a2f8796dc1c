#pragma once
// Tiles: the rows of token stages that one task computes, and which task shows a place.

#include <mha/kernels/routine.hpp>
#include <mha/schedule/place.hpp>
#include <mha/schedule/plan.hpp>

#include <functional>

namespace mha {

/// Heads side by side: [first, last).
struct HeadRange {
  std::size_t first = 0, last = 0;
};

/// Columns [first, last).
struct ColumnRange {
  std::size_t first = 0, last = 0;
};

/// Some rows of a token stage, of some of its heads: what one task computes.
struct Tile {
  std::size_t batch = 0, first = 0, count = 0;
  HeadRange heads;
};
/// The queries of a block that are not padding; none after the last one.
Tile block_rows(const Layer& layer, const QueryBlock& block);
/// How many keys some queries see by causal, window and kv_lengths, in products of key_tile.
std::size_t keys_seen(const Layer& layer, const Tile& queries);
/// The blocks of queries of the plan's blocks, and the heads that they span.
std::vector<Tile> query_rows(const Layer& layer, const Plan& plan);
/// Of these rows those from the first to the last query that the selection chose, from one multiple
/// of `step` to another.
Tile chosen_rows(const Plan& plan, const Tile& rows, std::size_t step);
/// All current keys of each batch item of the blocks that are not padding, and the key/value heads
/// that they read; where nothing attends to them, those that places_of() shows.
std::vector<Tile> key_rows(const Layer& layer, const Plan& plan);
/// All rows of x of the batch items of some rows.
std::vector<Tile> whole_items(const Layer& layer, const std::vector<Tile>& some);
/// What is computed around attention at once: the rows of one text after the other. Where some
/// queries are selected, or logits are computed, which are as wide as the vocabulary: of one block
/// of queries after the other those that the selection chose, from one multiple of `step(batch
/// item)` to another.
std::vector<Tile> rows_around(const Layer& layer, const Plan& plan,
                              const std::function<std::size_t(std::size_t)>& step);
/// Tasks for each thread of a projection that is cut by heads, if it has so many: a thread whose
/// core is taken from it for a while leaves its tasks to the others.
inline constexpr std::size_t tasks_of_thread = 3;
/// Rows that one task takes through steps without a product.
inline constexpr std::size_t rows_apart = 8;

/// The same rows in tiles of this height.
std::vector<Tile> tiles_of_height(const std::vector<Tile>& runs, std::size_t height);
/// The same rows in tiles, whose height follows from the number of a batch item's rows alone.
std::vector<Tile> row_tiles(const std::vector<Tile>& runs, std::size_t rows);
/// The same rows, each run cut by its heads into at most `pieces`, which begin where a multiple of
/// `step` columns does; a head has `width` columns.
std::vector<Tile> head_tiles(const std::vector<Tile>& runs, std::size_t width, std::size_t step,
                             std::size_t pieces);

/// Rows of a product with `columns` columns: all of them and some columns, in strips of
/// PackedMatrix::column_step, so that each part of W is read by one task; or all columns and some
/// rows where the routine splits many, so that a row is split once.
std::vector<Tile> product_tiles(const Tile& rows, std::size_t columns, Routine routine,
                                std::size_t threads);

/// The pieces of a wanted stage in the plan's blocks, with their padding. What has no
/// heads belongs to the first head of the selection; keys and values to the block that is the first
/// to read them. So each belongs to one part.
std::vector<Place> places_of(const Layer& layer, const Plan& plan, Stage stage);

} // namespace mha
