#include <mha/schedule/meter.hpp>

#include <mha/system/watch.hpp>

#include <algorithm>

namespace mha {

Meter::Meter(const Layer& layer, const Plan& plan) : layer_(layer) {
  Watcher* const told = watcher();
  if (!told) return;
  const Dims& dims = layer.dims;
  const auto product = [](auto... sizes) { return (static_cast<double>(sizes) * ...); };
  per_row_ =
      2 * product(std::max<std::size_t>(dims.d_model, 1), dims.H, std::max(dims.d_k, dims.d_v));
  per_pair_ = 2 * product(dims.d_k + dims.d_v);

  // As the loops of attention.cpp count: rows of tiles, queries of blocks.
  const auto computes = [&](auto... some) { return (contains(plan.computed, some) || ...); };
  const auto rows_of = [](const std::vector<Tile>& runs) {
    std::size_t rows = 0;
    for (const Tile& run : runs) rows += run.count;
    return rows;
  };
  double work = 0;
  for (Stage stage : {Stage::q, Stage::output})
    if (computes(stage)) work += per_row_ * product(rows_of(query_rows(layer, plan)));
  for (Stage stage : {Stage::k, Stage::v})
    if (computes(stage)) work += per_row_ * product(rows_of(key_rows(layer, plan, dims.S)));
  if (computes(Stage::scores, Stage::head_out))
    for (const QueryBlock& block : plan.blocks) {
      const std::size_t begin = std::min(block.block * block_queries, dims.T);
      work += work_of_queries(begin, std::min(begin + block_queries, dims.T));
    }
  told->begin(work);
}

Meter::~Meter() {
  if (Watcher* const told = watcher()) told->end();
}

void Meter::rows(std::size_t count) const {
  if (Watcher* const told = watcher()) told->advance(per_row_ * static_cast<double>(count));
}

void Meter::queries(std::size_t begin, std::size_t end) const {
  if (Watcher* const told = watcher()) told->advance(work_of_queries(begin, end));
}

/// The keys that causal masks and windows leave cost nothing.
double Meter::work_of_queries(std::size_t begin, std::size_t end) const {
  const Dims& dims = layer_.dims;
  const Settings& settings = layer_.settings;
  std::size_t keys = dims.S_all;
  if (settings.causal && dims.S_all >= dims.T) keys = std::min(keys, dims.S_all - dims.T + end);
  if (settings.causal && settings.window_left >= 0)
    keys = std::min(keys, static_cast<std::size_t>(settings.window_left) + end - begin);
  return per_pair_ * static_cast<double>(keys) * static_cast<double>(end - begin);
}

} // namespace mha
