#include <mha/schedule/plan.hpp>

#include <mha/system/parallel.hpp>

#include <algorithm>
#include <map>

namespace mha {

namespace {

void close_over(const Layer& layer, const StageSet& available, Stage stage, Plan& plan) {
  if (contains(plan.needed, stage)) return;
  plan.needed.set(index_of(stage));
  if (layer.has_given(stage)) return;
  // A given concatenation stands for head_out where nothing could compute it.
  if (stage == Stage::head_out && !can_compute(layer, stage, available)) {
    close_over(layer, available, Stage::concat, plan);
    return;
  }
  plan.computed.set(index_of(stage));
  for (Stage input : inputs_of(layer, stage)) close_over(layer, available, input, plan);
}

std::vector<std::size_t> sorted(std::vector<std::size_t> list) {
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
  return list;
}

} // namespace

Plan make_plan(const Layer& layer, const StageSet& wanted, const Selection& selection) {
  const StageSet available = available_stages(layer);
  Plan plan;
  plan.wanted = wanted;
  std::vector<Stage> list;
  for (const StageInfo& info : stages()) {
    if (!contains(wanted, info.stage)) continue;
    require_stage(layer, info.stage);
    list.push_back(info.stage);
    close_over(layer, available, info.stage, plan);
  }
  require_axes(layer, list, selection);

  const Dims& dims = layer.dims;
  plan.batches = sorted(resolved(selection.batch, dims.B, "batch items").indices);
  // The concatenation needs every head.
  const bool all_heads = contains(plan.computed, Stage::concat);
  plan.heads = sorted(resolved(all_heads ? std::nullopt : selection.head, dims.H, "heads").indices);
  plan.block_numbers = resolved(selection.query, dims.T, "queries").indices;
  for (std::size_t& block : plan.block_numbers) block /= block_queries;
  plan.block_numbers = sorted(plan.block_numbers);
  for (Stage stage : {Stage::concat, Stage::output, Stage::residual})
    plan.whole_rows = plan.whole_rows || contains(plan.wanted | plan.computed, stage);
  const std::vector<std::size_t> only_first{0};
  for (std::size_t batch : plan.batches)
    for (std::size_t head : plan.heads.empty() ? only_first : plan.heads)
      for (std::size_t block : plan.block_numbers.empty() ? only_first : plan.block_numbers)
        plan.blocks.push_back({batch, head, block});
  return plan;
}

namespace {

Tile block_rows(const Dims& dims, const QueryBlock& block) {
  const std::size_t first = std::min(block.block * block_queries, dims.T);
  return {
      block.batch, first, std::min(block_queries, dims.T - first), {block.head, block.head + 1}};
}

/// Whether keys and values are not only handed out.
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

} // namespace

std::vector<Tile> query_rows(const Layer& layer, const Plan& plan) {
  std::map<std::pair<std::size_t, std::size_t>, Tile> runs; // by batch and block
  for (const QueryBlock& block : plan.blocks) {
    Tile& run =
        runs.try_emplace({block.batch, block.block}, block_rows(layer.dims, block)).first->second;
    run.heads.last = block.head + 1; // heads rise
  }
  std::vector<Tile> list;
  for (const auto& [place, run] : runs) list.push_back(run);
  return list;
}

std::vector<Tile> key_rows(const Layer& layer, const Plan& plan, std::size_t rows) {
  std::vector<Tile> list;
  if (layer.dims.H_kv == 0) return list;
  for (const QueryBlock& block : plan.blocks) {
    if (!attends(plan) && !first_to_read(layer, plan, block)) continue;
    const std::size_t kv = kv_head_of(layer, block.head);
    if (list.empty() || list.back().batch != block.batch)
      list.push_back({block.batch, 0, rows, {kv, kv + 1}});
    auto& heads = list.back().heads;
    heads = {std::min(heads.first, kv), std::max(heads.last, kv + 1)};
  }
  return list;
}

std::vector<Tile> whole_items(const std::vector<Tile>& some, std::size_t rows) {
  std::vector<Tile> all;
  for (const Tile& run : some)
    if (all.empty() || all.back().batch != run.batch) all.push_back({run.batch, 0, rows, {}});
  return all;
}

std::vector<Tile> row_tiles(const std::vector<Tile>& runs, std::size_t rows) {
  const std::size_t height = rows <= 512 ? 64 : 256; // enough tiles for the cores
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

std::vector<Place> places_of(const Layer& layer, const Plan& plan, Stage stage) {
  const std::vector<Letter>& letters = info_of(stage).letters;
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
      const Tile rows = block_rows(layer.dims, block);
      if (rows.count > 0)
        list.push_back({block.batch, of_heads ? block.head : 0, rows.first, rows.count});
    }
  }
  return list;
}

std::size_t threads_for(const Layer& layer) {
  // Threads that have nothing to do cost more than they bring.
  const Dims& dims = layer.dims;
  const auto product = [](auto... sizes) { return (static_cast<double>(sizes) * ...); };
  const double work = product(dims.B * (dims.T + dims.S), dims.d_model + dims.d_out,
                              dims.H * (dims.d_k + dims.d_v)) +
                      product(dims.B * dims.H * dims.T, dims.S_all, dims.d_k + dims.d_v);
  return work < 4e6 ? 1 : core_count();
}

} // namespace mha
