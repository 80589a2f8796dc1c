#include "plan.hpp"

#include "kernels/parallel.hpp"

#include <algorithm>

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
  plan.blocks = resolved(selection.query, dims.T, "queries").indices;
  for (std::size_t& block : plan.blocks) block /= block_queries;
  plan.blocks = sorted(plan.blocks);
  return plan;
}

std::vector<RowTile> row_tiles(const Plan& plan, std::size_t rows, bool of_queries) {
  const std::size_t height = rows <= 512 ? 64 : 256; // enough tiles for the cores
  std::vector<RowTile> tiles;
  const auto add = [&](std::size_t batch, std::size_t begin, std::size_t end) {
    for (std::size_t first = begin; first < end; first += height)
      tiles.push_back({batch, first, std::min(height, end - first)});
  };
  for (std::size_t batch : plan.batches)
    if (!of_queries)
      add(batch, 0, rows);
    else
      for (std::size_t block : plan.blocks)
        add(batch, block * block_queries, std::min(rows, (block + 1) * block_queries));
  return tiles;
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
