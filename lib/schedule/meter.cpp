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

  // As the schedule counts: rows of tiles, queries of blocks.
  if (!contains(plan.computed, Stage::scores) && !contains(plan.computed, Stage::head_out))
    per_pair_ = 0;
  double work = 0;
  const auto add = [&](std::initializer_list<Stage> stages, const std::vector<Tile>& runs) {
    const auto times = static_cast<double>((plan.computed & set_of(stages)).count());
    for (const Tile& run : runs) work += times * per_row_ * static_cast<double>(run.count);
  };
  add({Stage::q, Stage::output}, query_rows(layer, plan));
  add({Stage::k, Stage::v}, key_rows(layer, plan, dims.S));
  for (const QueryBlock& block : plan.blocks) work += work_of(block);
  told->begin(work);
}

Meter::~Meter() {
  if (Watcher* const told = watcher()) told->end();
}

void Meter::rows(std::size_t count) const {
  if (Watcher* const told = watcher()) told->advance(per_row_ * static_cast<double>(count));
}

void Meter::queries(const QueryBlock& block) const {
  if (Watcher* const told = watcher()) told->advance(work_of(block));
}

double Meter::work_of(const QueryBlock& block) const {
  const Tile queries = block_rows(layer_.dims, block);
  return per_pair_ * static_cast<double>(queries.count * keys_seen(layer_, queries));
}

} // namespace mha
