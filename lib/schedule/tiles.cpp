#include <mha/schedule/tiles.hpp>

#include <mha/kernels/packed.hpp>
#include <mha/schedule/visible.hpp>

#include <algorithm>
#include <map>

namespace mha {

namespace {

/// Whether keys and values are used, and not only shown.
bool attends(const Plan& plan) {
  return contains(plan.computed, Stage::scores) || contains(plan.computed, Stage::head_out);
}

/// The blocks that are the first of their batch item to read a key/value head.
bool first_to_read(const Layer& layer, const Plan& plan, const QueryBlock& block) {
  if (plan.heads.empty() ||
      (!plan.block_numbers.empty() && block.block != plan.block_numbers.front()))
    return false;
  const std::size_t kv = kv_head_of(layer, block.head);
  return block.head == *std::find_if(plan.heads.begin(), plan.heads.end(), [&](std::size_t head) {
           return kv_head_of(layer, head) == kv;
         });
}

/// Of a batch item's `tokens` queries, those of a block.
Tile rows_of_block(std::size_t tokens, const QueryBlock& block) {
  const std::size_t first = std::min(block.block * block_queries, tokens);
  return {
      block.batch, first, std::min(block_queries, tokens - first), {block.head, block.head + 1}};
}

/// Strips of a weight, of PackedMatrix::column_step columns, that the next task multiplies with:
/// half of what is left for each thread, so that the last tasks are short and the threads end
/// together; and few enough that each task has more to multiply than to convert.
std::size_t strips_together(std::size_t left, std::size_t threads) {
  constexpr std::size_t most = 512 / PackedMatrix<float>::column_step;
  return std::clamp<std::size_t>(left / (2 * std::max<std::size_t>(threads, 1)), 1, most);
}

/// Rows that one task multiplies: enough tasks for the threads, and enough rows for each part of
/// the weight that is fetched: no more than are split at once.
std::size_t rows_together(std::size_t rows, std::size_t threads) {
  constexpr std::size_t step = bf16x3_rows, most = bf16x3_block_rows;
  const std::size_t even = (rows / (2 * std::max<std::size_t>(threads, 1)) + step - 1) / step;
  return std::clamp<std::size_t>(even * step, 2 * step, most);
}

} // namespace

Tile block_rows(const Layer& layer, const QueryBlock& block) {
  return rows_of_block(layer.length_of(block.batch), block);
}

std::size_t keys_seen(const Layer& layer, const Tile& queries) {
  if (queries.count == 0) return 0;
  const Visible seen = visible_tiles(layer, queries.batch, queries.first, queries.count, key_tile);
  return seen.last - seen.first;
}

std::vector<Tile> query_rows(const Layer& layer, const Plan& plan) {
  std::map<std::pair<std::size_t, std::size_t>, Tile> runs; // by batch and block
  for (const QueryBlock& block : plan.blocks) {
    Tile& run =
        runs.try_emplace({block.batch, block.block}, block_rows(layer, block)).first->second;
    run.heads.last = block.head + 1; // heads rise
  }
  std::vector<Tile> list;
  for (const auto& [place, run] : runs)
    if (run.count > 0 || layer.lengths.empty()) list.push_back(run);
  return list;
}

Tile chosen_rows(const Plan& plan, const Tile& rows, std::size_t step) {
  Tile chosen = rows;
  const std::size_t end = rows.first + rows.count;
  const auto first = std::ranges::lower_bound(plan.queries, rows.first);
  const auto last = std::ranges::lower_bound(plan.queries, end);
  if (first == last) return chosen;
  chosen.first = *first / step * step;
  chosen.count = std::min(end, (*(last - 1) / step + 1) * step) - chosen.first;
  return chosen;
}

std::vector<Tile> key_rows(const Layer& layer, const Plan& plan) {
  std::vector<Tile> list;
  if (layer.dims.H_kv == 0) return list;
  for (const QueryBlock& block : plan.blocks) {
    if (!attends(plan) && !first_to_read(layer, plan, block)) continue;
    const std::size_t kv = kv_head_of(layer, block.head);
    if (list.empty() || list.back().batch != block.batch)
      list.push_back({block.batch, 0, keys_of(layer, block.batch) - layer.dims.past, {kv, kv + 1}});
    auto& heads = list.back().heads;
    heads = {std::min(heads.first, kv), std::max(heads.last, kv + 1)};
  }
  return list;
}

std::vector<Tile> whole_items(const Layer& layer, const std::vector<Tile>& some) {
  std::vector<Tile> all;
  for (const Tile& run : some)
    if (all.empty() || all.back().batch != run.batch)
      all.push_back({run.batch, 0, layer.length_of(run.batch), {}});
  return all;
}

std::vector<Tile> rows_around(const Layer& layer, const Plan& plan,
                              const std::function<std::size_t(std::size_t)>& step) {
  const bool by_block =
      contains(plan.computed, Stage::logits) || plan.queries.size() < layer.dims.T;
  std::vector<Tile> all;
  for (const Tile& rows : query_rows(layer, plan)) {
    if (rows.count == 0) continue;
    const bool goes_on = !all.empty() && all.back().batch == rows.batch &&
                         all.back().first + all.back().count == rows.first;
    if (by_block)
      // Rows that are split together stay together: one that does not split takes the others along.
      all.push_back(chosen_rows(plan, rows, step(rows.batch)));
    else if (goes_on)
      all.back().count += rows.count;
    else
      all.push_back(rows);
  }
  return all;
}

std::vector<Tile> row_tiles(const std::vector<Tile>& runs, std::size_t rows) {
  return tiles_of_height(runs, rows <= 512 ? 64 : 256); // enough tiles for the cores
}

std::vector<Tile> tiles_of_height(const std::vector<Tile>& runs, std::size_t height) {
  std::vector<Tile> tiles;
  for (const Tile& run : runs)
    for (std::size_t i = 0; i < run.count; i += height)
      tiles.push_back({run.batch, run.first + i, std::min(height, run.count - i), run.heads});
  return tiles;
}

std::vector<Tile> head_tiles(const std::vector<Tile>& runs, std::size_t width, std::size_t step,
                             std::size_t pieces) {
  std::vector<Tile> tiles;
  for (const Tile& run : runs) {
    if (run.count == 0) continue;
    const std::size_t least = (run.heads.last - run.heads.first + pieces - 1) / pieces;
    Tile tile = run;
    for (std::size_t h = run.heads.first; h < run.heads.last; ++h) {
      if (h - tile.heads.first < least || h * width % step != 0) continue;
      tile.heads.last = h;
      tiles.push_back(tile);
      tile.heads = {h, run.heads.last};
    }
    tiles.push_back(tile);
  }
  return tiles;
}

std::vector<Tile> product_tiles(const Tile& rows, std::size_t columns, Routine routine,
                                std::size_t threads) {
  constexpr std::size_t step = PackedMatrix<float>::column_step;
  Tile tile = rows;
  const std::size_t strips = (columns + step - 1) / step;
  tile.heads = {0, strips};
  if (routine == Routine::bf16x3 && rows.count > bf16x3_as_read)
    return tiles_of_height({tile}, rows_together(rows.count, threads));
  std::vector<Tile> tiles;
  for (std::size_t first = 0; first < strips; first = tile.heads.last) {
    tile.heads = {first, first + strips_together(strips - first, threads)};
    tiles.push_back(tile);
  }
  return tiles;
}

std::vector<Place> places_of(const Layer& layer, const Plan& plan, Stage stage) {
  const std::vector<Dim>& letters = info_of(stage).letters;
  const Axis axis = axis_of(letters[0]);
  const bool of_keys = axis == Axis::kv_head, of_heads = axis == Axis::head;
  const std::size_t first_head = plan.heads.empty() ? 0 : plan.heads.front();
  std::vector<Place> list;
  for (const QueryBlock& block : plan.blocks) {
    if (of_keys) {
      if (first_to_read(layer, plan, block))
        list.push_back({block.batch, kv_head_of(layer, block.head), 0,
                        layer.dims.size_of(letters[letters.size() - 2])});
    } else if (of_heads || block.head == first_head) {
      const Tile rows = rows_of_block(layer.dims.T, block);
      if (rows.count > 0)
        list.push_back({block.batch, of_heads ? block.head : 0, rows.first, rows.count});
    }
  }
  return list;
}

} // namespace mha
