#include <mha/schedule/meter.hpp>

#include <mha/system/watch.hpp>

#include <algorithm>

namespace mha {

namespace {

double operations(std::size_t rows, std::size_t in, std::size_t out) {
  return 2 * static_cast<double>(rows) * static_cast<double>(in) * static_cast<double>(out);
}

/// Around attention: the products of the feed-forward or of a mixture's experts, of the model's
/// head.
double work_around(const Layer& layer, const Plan& plan) {
  double work = 0;
  const auto add = [&](Stage stage, const LinearMap& linear, std::size_t rows) {
    if (contains(plan.computed, stage) && linear.present())
      work += operations(rows, linear.in(), linear.out());
  };
  for (const Tile& run : query_rows(layer, plan)) {
    const std::size_t rows = chosen_rows(plan, run, 1).count;
    if (layer.block) {
      const FeedForward& mlp = layer.block->mlp;
      add(Stage::mlp_pre, mlp.in, rows), add(Stage::mlp_up, mlp.up, rows);
      add(Stage::mlp_out, mlp.out, rows);
      add(Stage::layer_add, layer.block->supplement.in, rows);
      add(Stage::layer_add, layer.block->supplement.out, rows);
      if (const Mixture* const mixture = layer.block->mixture.get()) {
        const std::size_t of_experts = rows * mixture->routing.chosen;
        add(Stage::router, mixture->router, rows);
        if (mixture->gated()) add(Stage::mlp_up, mixture->up[0], of_experts);
        add(Stage::mlp_pre, mixture->in[0], of_experts);
        add(Stage::expert_out, mixture->out[0], of_experts);
        add(Stage::shared_pre, mixture->shared.in, rows);
        add(Stage::shared_up, mixture->shared.up, rows);
        add(Stage::shared_out, mixture->shared.out, rows);
      }
    }
    if (layer.ends) {
      add(Stage::logits, layer.ends->head.dense, rows);
      add(Stage::logits, layer.ends->head.decoder, rows);
    }
  }
  return work;
}

} // namespace

Meter::Meter(const Layer& layer, const Plan& plan) : layer_(layer) {
  const Dims& dims = layer.dims;
  const auto product = [](auto... sizes) { return (static_cast<double>(sizes) * ...); };
  per_row_ =
      2 * product(std::max<std::size_t>(dims.d_model, 1), dims.H, std::max(dims.d_k, dims.d_v));
  per_pair_ = 2 * product(dims.d_k + dims.d_v);
  if (!contains(plan.computed, Stage::scores) && !contains(plan.computed, Stage::head_out))
    per_pair_ = 0;
}

/// As the schedule counts: rows of tiles, queries of blocks.
double Meter::work_of(const Plan& plan) const {
  double work = 0;
  const auto add = [&](std::initializer_list<Stage> stages, const std::vector<Tile>& runs) {
    const auto times = static_cast<double>((plan.computed & StageSet(stages)).count());
    for (const Tile& run : runs) work += times * per_row_ * static_cast<double>(run.count);
  };
  add({Stage::q, Stage::gate, Stage::output}, query_rows(layer_, plan));
  add({Stage::k, Stage::v}, key_rows(layer_, plan));
  if (per_pair_ > 0)
    for (const QueryBlock& block : plan.blocks) work += work_of(block);
  return work;
}

void report_product(std::size_t rows, const Tensor& W) {
  if (Watcher* const watching = watcher())
    watching->advance(operations(rows, W.shape()[0], W.shape()[1]));
}

Progress::Progress(const Layer& layer, const Plan& plan) {
  StopCheck::make_all();
  if (Watcher* const watching = watcher())
    watching->begin(Meter(layer, plan).work_of(plan) + work_around(layer, plan));
}

Progress::~Progress() {
  if (Watcher* const watching = watcher()) watching->end();
}

void Meter::rows(std::size_t count) const {
  if (Watcher* const watching = watcher()) watching->advance(per_row_ * static_cast<double>(count));
}

void Meter::queries(const QueryBlock& block) const {
  if (Watcher* const watching = watcher()) watching->advance(work_of(block));
}

double Meter::work_of(const QueryBlock& block) const {
  const Tile queries = block_rows(layer_, block);
  return per_pair_ * static_cast<double>(queries.count * keys_seen(layer_, queries));
}

} // namespace mha
